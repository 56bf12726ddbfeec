"""What it costs to explain what an encoder–decoder writes: `python -m tests.benchmarks.encoder_decoders`.

BART of 6 + 6 layers × 512, a source of 128 tokens and 32 of output; processor time beside an eager forward with
`output_attentions=True`, the two in turn, the median of several rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from attnx.adapters import Output, Position, PreparedInput, group_words, with_decoder_prefix
from attnx.pipeline import Request, Settings, explain_prepared
from tests import zoo

SOURCE, OUTPUT, ROUNDS = 128, 32, 9
SIZES = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8}
SIZES |= {"decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 300}


def prepared(model: Any) -> PreparedInput:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 300, (SOURCE,), generator=generator)
    written = [2, *torch.randint(5, 300, (OUTPUT - 1,), generator=generator).tolist()]
    positions, words = group_words([Position(place, str(place)) for place in range(SOURCE)], None)
    source = PreparedInput({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, positions, words)
    return with_decoder_prefix(
        model, source, Output(written, [Position(place, str(place)) for place in range(OUTPUT)], None)
    )


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    torch.manual_seed(0)
    model = hf.BartForConditionalGeneration(hf.BartConfig(**SIZES)).eval()
    eager = hf.BartForConditionalGeneration(hf.BartConfig(**SIZES)).eval()
    eager.set_attn_implementation("eager")
    tokenizer, one = zoo.bytelevel_tokenizer(), prepared(model)
    inputs = {name: tensor[None] for name, tensor in one.inputs.items()}

    def plain() -> None:
        with torch.no_grad():
            eager(**inputs, output_attentions=True, use_cache=False)

    def explained(positions: range, layer: int | None) -> Callable[[], Any]:
        settings = Settings.of("rollout", layer=layer)
        requests = [Request(one, position=place, target=7) for place in positions]
        return lambda: list(explain_prepared(model, tokenizer, requests, settings))

    sides = {
        "one token, rollout of all levels": explained(range(SOURCE + OUTPUT - 1, SOURCE + OUTPUT), None),
        "a target of 32 tokens, rollout of the last level": explained(range(SOURCE, SOURCE + OUTPUT), -1),
    }
    for name, run in sides.items():
        run()
        plain()
        ratios = []
        for _ in range(ROUNDS):
            before, own, after = seconds(plain), seconds(run), seconds(plain)
            ratios.append(2 * own / (before + after))
        print(f"{name}: {statistics.median(ratios):.2f} × an eager forward with output_attentions ({before:.3f} s)")


if __name__ == "__main__":
    main()
