"""The picture of docs/generation.md: a small decoder learns to say a list of words again, and is watched doing it.

    python docs/generation_picture.py

Two layers learn it in about a minute on one core.
"""

from __future__ import annotations

import random
from pathlib import Path

import tokenizers
import torch
import transformers
from matplotlib.figure import Figure

import attnx

LIST = (
    "key cabinet table book film author movie witty plain dull gorgeous hello world house river stone bread letter "
    "window garden music winter summer doctor teacher bridge engine forest island mirror needle orange pencil rabbit"
)
WORDS = LIST.split()
LENGTH, STEPS, BATCH = 8, 2500, 64


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    tokenizer = word_tokenizer()
    model = learn_to_repeat(tokenizer)
    said = random.sample(WORDS, LENGTH)
    generation = attnx.explain_generation(model, tokenizer, " ".join([*said, ":"]), max_new_tokens=LENGTH)
    right = "".join(generation.generated) == "".join(said)
    print(generation, "\nsaid again without a mistake:", right)
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2), ("raw", "rollout"), strict=True):
        generation.plot(method, ax=axes)
        axes.set_title({"raw": "raw attention, layer 2", "rollout": "rollout"}[method], fontsize=10)
    figure.savefig(Path(__file__).parent / "images" / "generation.png", dpi=110)


def learn_to_repeat(tokenizer: transformers.PreTrainedTokenizerFast) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=64, n_layer=2, n_head=2, n_positions=2 * LENGTH + 1,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    colon = tokenizer.convert_tokens_to_ids(":")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(STEPS):
        said = torch.rand(BATCH, len(WORDS)).argsort(1)[:, :LENGTH] + 2
        ids = torch.cat([said, torch.full((BATCH, 1), colon), said], dim=1)
        labels = ids.masked_fill(torch.arange(ids.shape[1]) <= LENGTH, -100)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")
    return model.eval()


def word_tokenizer() -> transformers.PreTrainedTokenizerFast:
    vocabulary = {"<end>": 0, ":": 1} | {word: index for index, word in enumerate(WORDS, start=2)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<end>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", unk_token="<end>")


if __name__ == "__main__":
    main()
