"""Training of the verb-number model: recipes, teachers, evaluation, model card.

`plain`, `paper` and `authors` are a ladder: each is the one before it and one thing more. All of them, and all seeds,
hold out the same lines, so that their models are compared on the same sentences.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from torch import Tensor, nn
from tqdm import tqdm
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from attnx.demo_models import verb_number as checkpoint
from attnx.demo_models import verb_number_data as lexicon
from attnx.demo_models import verb_number_data as linzen
from attnx.demo_models.hub import saved_model
from attnx.demo_models.verb_number import (
    LABELS,
    TAG_EXAMPLES,
    Beginning,
    VerbNumberConfig,
    VerbNumberForSequenceClassification,
    build_tokenizer,
    load_any,
    read_note,
    require_same_split,
)
from attnx.demo_models.verb_number_data import Split, generate, split_files, without
from attnx.errors import FileFormatError, InputError
from attnx.registry import quoted


@dataclass(frozen=True)
class Recipe:
    """One run of training. An epoch is all natural lines, plus so many of each other source, newly drawn each time."""

    seed: int = 0
    epochs: int = 12
    batch: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 300
    weight_decay: float = 0.01
    clip: float = 1.0
    averaging: float = 0.999
    """Decay of the running mean of the weights, which is what is kept in the end."""
    word_dropout: float = 0.05
    """Share of words that are replaced by `<unk>`, newly drawn in each step."""
    dropout: float = 0.1
    """On what each block adds to the residual stream; on the embeddings and the attention weights too, unless they
    have their own."""
    embedding_dropout: float | None = None
    attention_dropout: float | None = None
    masks_padding: bool = True
    """False: padding is attended to like words while the model learns."""
    sorted_batches: int = 50
    """So many batches are sorted by length together, so that little is padded; 1: sentences stay where chance put
    them."""
    attractor_lines: int = 12_000
    """Lines per epoch from files of which every line has attractors: few, because nature has few."""
    generated: int = 4_000
    """Generated sentences per epoch."""
    joined: int = 0
    """Sentences of two clauses per epoch, each put together from two natural lines."""
    prefixes: int = 0
    """Shorter beginnings per epoch, cut from those in the data and labelled by the teacher."""
    noun_phrases: int = 0
    """Single words per epoch, each after "the" and labelled by the teacher."""
    teachers_vectors: bool = True
    """Word vectors start as the teacher's, where there is a teacher."""
    soft_labels: bool = False
    """The teacher's probabilities stand in the place of all labels."""

    @property
    def dropouts(self) -> dict[str, float]:
        """By their names in the model's config."""
        embedding, attention = (
            self.dropout if value is None else value for value in (self.embedding_dropout, self.attention_dropout)
        )
        return {
            "embedding_dropout": embedding,
            "attention_dropout": attention,
            "residual_dropout": self.dropout,
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


TEACHER = Recipe(
    epochs=1, batch=32, learning_rate=1e-4, warmup_steps=100, word_dropout=0.0, attractor_lines=6_000, generated=0
)
"""For a pretrained body: short, gentle, and natural sentences above all."""

STUDENT = Recipe(epochs=6, attractor_lines=16_000, prefixes=40_000)
"""For the small model that learns from a teacher."""

CONTINUED = Recipe(
    epochs=3,
    batch=32,
    learning_rate=6e-4,
    dropout=0.05,
    word_dropout=0.02,
    attractor_lines=12_000,
    generated=2_000,
    joined=14_000,
    prefixes=26_000,
    noun_phrases=6_000,
)
"""For a student that goes on: longer sentences, single words, and less noise."""

ALONE = Recipe(joined=8_000)
"""For the small model without a teacher."""


class LstmConfig(PretrainedConfig):
    """Two layers of 128 on word vectors of 128, unless told otherwise; `residual_dropout` is between the layers."""

    model_type = "attnx-verb-number-lstm"

    def __init__(
        self,
        vocab_size: int = 10_000,
        hidden_size: int = 128,
        num_hidden_layers: int = 2,
        max_position_embeddings: int = 64,
        embedding_dropout: float = 0.1,
        residual_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.max_position_embeddings = max_position_embeddings
        self.embedding_dropout = embedding_dropout
        self.residual_dropout = residual_dropout
        kwargs.setdefault("id2label", dict(enumerate(LABELS)))
        kwargs.setdefault("label2id", {label: index for index, label in enumerate(LABELS)})
        kwargs.setdefault("tie_word_embeddings", False)
        super().__init__(**kwargs)


class LstmForSequenceClassification(PreTrainedModel):
    config_class = LstmConfig
    main_input_name = "input_ids"

    def __init__(self, config: LstmConfig) -> None:
        super().__init__(config)
        self.num_labels = len(LABELS)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.lstm = nn.LSTM(
            config.hidden_size,
            config.hidden_size,
            config.num_hidden_layers,
            batch_first=True,
            dropout=config.residual_dropout,
        )
        self.residual_dropout = nn.Dropout(config.residual_dropout)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """As PyTorch initialises them, but for smaller word vectors."""
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> SequenceClassifierOutput:
        """`attention_mask` is 1 on words and 0 on padding, which stands at the end."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states, _ = self.lstm(self.embedding_dropout(self.words(input_ids)))
        # What comes after a sentence's last word cannot reach back to it.
        last = states[torch.arange(len(states)), mask.sum(-1) - 1]
        logits: Any = self.classifier(self.residual_dropout(last))
        return SequenceClassifierOutput(logits=logits)


def vocabulary(sentences: Iterable[str], size: int | None = None) -> list[str]:
    """The words of the sentences, most frequent first and then by the alphabet; at most `size` of them."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return [word for word in ranked if word not in TAG_EXAMPLES][:size]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SINGULAR_VERBS, _PLURAL_VERBS = _words("is was has"), _words("are were have")
_NOT_BEFORE_A_NOUNS_VERB = _words(
    "i you he she it we they there who which that what this these those here where when how why one ; , : ( ) `` '' "
    "and or but not also to would could should may might can will must did does do is are was were has have had be "
    "been than as if then so such only often usually never always still now thus 's n't 'll 'd cannot all some both "
    "each more most many few several"
)
_BEFORE_AN_INFINITIVE = _words("to would could should may might can will must did does not")

_MOST_WORDS_TO_JOIN = 12
_COPULA = ("is", "are")
_JOINTS = (
    "JJ , and", "JJ , but", "JJ ;", "JJ and", "VBN , while", "VBN because", "JJ , so", "VBN that", "known , although",
    "NN , and", "VBN by NNP , and", "used when", "JJ if", "the NN that", "not JJ , as", "VBN in NNP , where",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """A beginning and the probability that its verb is plural: 0 or 1 from a label, between them from a teacher."""

    text: str
    plural: float


@dataclass(frozen=True)
class LessonSource:
    """Examples of one origin, and how many of them each epoch draws without repeats; None for all."""

    examples: Sequence[Example]
    per_epoch: int | None = None

    def draw(self, rng: random.Random) -> list[Example]:
        count = len(self.examples) if self.per_epoch is None else min(self.per_epoch, len(self.examples))
        return rng.sample(self.examples, count)


def labelled_sources(split: Split, recipe: Recipe) -> list[LessonSource]:
    """Everything with a true label: natural lines, inner verbs, attractor lines, generated and joined ones."""
    lines = [beginning for file in split.train for beginning in file]
    natural = [line for line in lines if line.natural]
    selected = [line for line in lines if not line.natural]
    inner = [cut for line in lines for cut in inner_beginnings(line.text)]
    generated = generate(10 * recipe.generated, seed=recipe.seed) if recipe.generated else []
    kept = split.held_out
    return [
        LessonSource(_examples(natural)),
        LessonSource(_examples(without(inner, kept))),
        LessonSource(_examples(selected), recipe.attractor_lines),
        LessonSource(_examples(without(generated, kept)), recipe.generated),
        LessonSource(_examples(without(joined(natural, 6 * recipe.joined, recipe.seed), kept)), recipe.joined),
    ]


def inner_beginnings(text: str) -> list[Beginning]:
    """The beginnings that end before an inner verb of known number: "the cat *is* old but the dogs" → "the cat".

    Only is/are, was/were and has/have after what may be a noun; pronouns, infinitives and inversions are passed over.
    """
    words = text.split()
    beginnings = []
    for index in range(1, len(words)):
        verb, before = words[index], words[index - 1]
        if verb not in _SINGULAR_VERBS | _PLURAL_VERBS or before in _NOT_BEFORE_A_NOUNS_VERB:
            continue
        if verb == "have" and _BEFORE_AN_INFINITIVE & set(words[max(0, index - 2) : index]):
            continue
        beginnings.append(Beginning(" ".join(words[:index]), int(verb in _PLURAL_VERBS)))
    return beginnings


def joined(natural: Sequence[Beginning], count: int, seed: int) -> list[Beginning]:
    """Beginnings of two clauses, of which the second has the verb to come: "the cat *is JJ , but* the dogs".

    Long natural beginnings are few and their early nouns mislead; here the early nouns are sure to be of no account.
    """
    rng = random.Random(f"joined {seed}")
    short = [line for line in natural if len(line.words) <= _MOST_WORDS_TO_JOIN]
    pairs = (rng.sample(short, 2) for _ in range(count if len(short) > 1 else 0))
    return [
        Beginning(f"{first.text} {_COPULA[first.label]} {rng.choice(_JOINTS)} {second.text}", second.label)
        for first, second in pairs
    ]


def prefixes(split: Split) -> list[str]:
    """Shorter beginnings of those in the data, for a teacher to label, each once and in the order of the data.

    A beginning is cut after words that beginnings are apt to end with (nouns, mostly), not after "the" or "of".
    """
    texts = list(dict.fromkeys(beginning.text for file in split.train for beginning in file))
    anywhere = Counter(word for text in texts for word in text.split())
    last = Counter(text.rsplit(" ", 1)[-1] for text in texts)
    apt = {word for word in last if last[word] >= 0.08 * anywhere[word]}
    known = split.held_out.union(texts)
    cut: dict[str, None] = {}
    for text in texts:
        words = text.split()
        for end in range(1, len(words)):
            if words[end - 1] in apt:
                cut[" ".join(words[:end])] = None
    return [text for text in cut if text not in known]


def noun_phrases(words: Iterable[str], split: Split) -> list[str]:
    """ "the key", "the cabinets", …: each word by itself, for a teacher to say which are plural nouns."""
    known = split.held_out
    return [phrase for phrase in (f"the {word}" for word in words) if phrase not in known]


def _examples(beginnings: Iterable[Beginning]) -> list[Example]:
    return [Example(beginning.text, float(beginning.label)) for beginning in beginnings]


@dataclass(frozen=True)
class LessonBatch:
    """Token ids and mask, batch × position, and each sentence's probability of a plural verb."""

    ids: Tensor
    mask: Tensor
    plural: Tensor


def epoch_batches(
    sources: Sequence[LessonSource], token_ids: Mapping[str, Sequence[int]], recipe: Recipe, epoch: int, pad: int
) -> list[LessonBatch]:
    """One epoch. Sentences are sorted by length within buckets, then batches are shuffled."""
    rng = random.Random(f"epoch {recipe.seed} {epoch}")
    examples = [example for source in sources for example in source.draw(rng)]
    rng.shuffle(examples)
    bucket = recipe.batch * recipe.sorted_batches
    batches = [
        chunk
        for start in range(0, len(examples), bucket)
        for chunk in _chunks(
            sorted(examples[start : start + bucket], key=lambda example: len(token_ids[example.text])), recipe.batch
        )
    ]
    rng.shuffle(batches)
    return [_batch(chunk, token_ids, pad) for chunk in batches]


def tokenize(texts: Sequence[str], tokenizer: object, positions: int) -> dict[str, list[int]]:
    """Token ids of each different text; one that the model has no positions for is an error."""
    different = list(dict.fromkeys(texts))
    ids = dict(zip(different, tokenizer(different, verbose=False)["input_ids"], strict=True)) if different else {}  # type: ignore[operator]
    for text, tokens in ids.items():
        if len(tokens) > positions:
            raise InputError(
                f"a sentence has {len(tokens)} tokens, the model {positions} positions; "
                f"delete or shorten it: {text[:60]}…"
            )
    return ids


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, filled up with `pad`, and the mask of what is not padding."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def _batch(examples: Sequence[Example], token_ids: Mapping[str, Sequence[int]], pad: int) -> LessonBatch:
    ids, mask = padded([token_ids[example.text] for example in examples], pad)
    return LessonBatch(ids, mask, torch.tensor([example.plural for example in examples]))


def _chunks(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))


@dataclass(frozen=True)
class Accuracy:
    """Right answers of so many, with the 95 % interval of the share (Wilson)."""

    of: str
    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total

    @property
    def interval(self) -> tuple[float, float]:
        z, n, share = 1.96, self.total, self.share
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
        return centre - half, centre + half

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.of}: {self.share:.4f} ({self.right:,} of {self.total:,}; 95 % interval {low:.3f}–{high:.3f})"


def evaluate(
    model_directory: Path | None, data: Sequence[Path], *, seed: int = 0, whole: bool = False
) -> list[Accuracy]:
    """Accuracy on what `train` with the same files and seed held out; None is the model that ships with attnx.

    `whole` takes every line instead, for files that the model was never trained on.
    """
    with checkpoint.demo_directory() as demo:
        directory = model_directory or demo
        model, tokenizer = load_trained(directory)
        if whole:
            files: Sequence[Sequence[Beginning]] = [list(linzen.read_file(path)) for path in data]
        else:
            split = split_files(data, seed=seed)
            require_same_split(directory, split.digest)
            files = split.test
    return accuracies(model, tokenizer, files, [path.name for path in data])


def load_trained(directory: Path) -> tuple[Any, Any]:
    """What `load_any` loads, or an LSTM teacher."""
    settings, _ = LstmConfig.get_config_dict(saved_model(directory))
    if settings.get("model_type") == LstmConfig.model_type:
        return checkpoint.load(directory, LstmForSequenceClassification)
    return load_any(directory)


def write_note(directory: Path, description: Mapping[str, Any]) -> None:
    """In one step: a run that is stopped meanwhile leaves the whole note, or none."""
    beside = directory / "training.json.part"
    beside.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    beside.replace(directory / "training.json")


def accuracies(
    model: Any, tokenizer: Any, files: Sequence[Sequence[Beginning]], names: Sequence[str]
) -> list[Accuracy]:
    """One line per file that has lines. A file whose attractor counts are known and vary gets a line per count too."""
    result = []
    for name, beginnings in zip(names, files, strict=True):
        if not beginnings:
            continue
        plural = plural_probabilities(model, tokenizer, [one.text for one in beginnings]) > 0.5
        right = plural == torch.tensor([one.label == 1 for one in beginnings])
        result.append(Accuracy(name, int(right.sum()), len(beginnings)))
        counts = [one.attractor_count for one in beginnings]
        for count in sorted({count for count in counts if count is not None}) if len(set(counts)) > 1 else ():
            chosen = right[torch.tensor([index == count for index in counts])]
            result.append(Accuracy(f"{name}, {count} attractors", int(chosen.sum()), len(chosen)))
    return result


def plural_probabilities(
    model: Any, tokenizer: Any, texts: Sequence[str], *, batch: int = 128, progress: bool = False
) -> Tensor:
    """The probability of a plural verb after each text. The model is left in the mode it was in."""
    ids = tokenize(texts, tokenizer, model.config.max_position_embeddings)
    order = sorted(range(len(texts)), key=lambda index: len(ids[texts[index]]))
    answers = torch.zeros(len(texts))
    was_training = model.training
    model.eval()
    try:
        for start in tqdm(range(0, len(order), batch), "reading", unit="batch", disable=not progress):
            chosen = order[start : start + batch]
            tokens, mask = padded([ids[texts[index]] for index in chosen], tokenizer.pad_token_id)
            with torch.inference_mode():
                answers[chosen] = model(input_ids=tokens, attention_mask=mask).logits.softmax(-1)[:, 1]
    finally:
        model.train(was_training)
    return answers


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Inside the block the first Ctrl-C only makes the function that it gives return True; a second one stops at once.

    In a thread other than the main one, which Ctrl-C never reaches, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass
class TrainingState:
    """The parameters in training, by name; `average` and the moments follow the same names."""

    parameters: dict[str, nn.Parameter]
    average: dict[str, Tensor]
    optimizer: torch.optim.AdamW
    step: int = 0

    @classmethod
    def begin(cls, model: nn.Module, weight_decay: float) -> TrainingState:
        """Step 0 of a model. Biases, LayerNorms and other vectors do not decay."""
        parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        matrices = [parameter for parameter in parameters.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in parameters.values() if parameter.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        return cls(parameters, average, torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True))

    def save(self, path: Path) -> None:
        tensors = {f"average.{name}": tensor for name, tensor in self.average.items()}
        for name, parameter in self.parameters.items():
            tensors[f"weight.{name}"] = parameter.detach()
            moments = self.optimizer.state[parameter]
            tensors[f"first.{name}"], tensors[f"second.{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
        write_atomically(tensors, path, {"step": str(self.step)})

    def load(self, path: Path) -> None:
        try:
            with safe_open(path, "pt") as file:
                self.step = int(file.metadata()["step"])
                for name, parameter in self.parameters.items():
                    parameter.data.copy_(file.get_tensor(f"weight.{name}"))
                    self.average[name].copy_(file.get_tensor(f"average.{name}"))
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(self.step)),
                        "exp_avg": file.get_tensor(f"first.{name}"),
                        "exp_avg_sq": file.get_tensor(f"second.{name}"),
                    }
        except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
            raise FileFormatError(
                f"{path} is not the state of this training: {error}; delete it to start anew"
            ) from error

    def use_average(self) -> None:
        """Replace the weights by their running mean: what is kept in the end."""
        for name, parameter in self.parameters.items():
            parameter.data.copy_(self.average[name])


def write_atomically(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Written beside, flushed to the disk, then renamed: a reader never sees half a file."""
    beside = path.with_name(f"{path.name}.part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata=metadata)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)


STEPS_BETWEEN_SAVES = 200

TokenIds = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Lessons:
    """What a run learns from, as token ids, and the development lines that it is watched on."""

    sources: Sequence[LessonSource]
    token_ids: TokenIds
    development: Sequence[Beginning]


def fit(model: Any, tokenizer: Any, lessons: Lessons, recipe: Recipe, path: Path, *, progress: bool) -> None:
    """Train until the recipe is done, from the state in `path` where there is one; the weights end as their mean."""
    pad = tokenizer.pad_token_id
    per_epoch = len(epoch_batches(lessons.sources, lessons.token_ids, recipe, 0, pad))
    total = per_epoch * recipe.epochs
    state = TrainingState.begin(model, recipe.weight_decay)
    if path.is_file():
        state.load(path)
    model.train()
    loss, accuracy = _RunningMean(), _RunningMean()
    with interrupts_noted() as interrupted, _bar(total, state.step, progress) as bar:
        for batch in _remaining(lessons, recipe, pad, state.step, per_epoch):
            step_loss, step_accuracy = _step(model, tokenizer, batch, state, recipe, total)
            bar.update()
            bar.set_postfix(loss=loss.add(step_loss), accuracy=accuracy.add(step_accuracy), refresh=False)
            if state.step % STEPS_BETWEEN_SAVES == 0 or interrupted():
                state.save(path)
            if interrupted():
                raise KeyboardInterrupt
            if progress and state.step % per_epoch == 0:
                bar.write(f"epoch {state.step // per_epoch}: {_on_development(model, tokenizer, lessons, state)}")
    state.use_average()
    model.eval()


def _bar(total: int, done: int, shown: bool) -> Any:
    return tqdm(total=total, initial=done, unit="step", disable=not shown)


def learning_rate(recipe: Recipe, step: int, total: int) -> float:
    """Linear warm-up, then half a cosine down to 2 % of the peak."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return recipe.learning_rate * warm * (0.51 + 0.49 * math.cos(math.pi * step / total))


def _step(
    model: Any, tokenizer: Any, batch: LessonBatch, state: TrainingState, recipe: Recipe, total: int
) -> tuple[float, float]:
    """One step of AdamW on cross-entropy with soft targets; returns its loss and accuracy."""
    torch.manual_seed(recipe.seed * 1_000_003 + state.step)
    ids = batch.ids
    if recipe.word_dropout:
        special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        dropped = (torch.rand(ids.shape) < recipe.word_dropout) & ~special
        ids = ids.masked_fill(dropped, tokenizer.unk_token_id)
    mask = batch.mask if recipe.masks_padding else torch.ones_like(batch.mask)
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = F.cross_entropy(logits, torch.stack([1 - batch.plural, batch.plural], dim=-1))
    state.optimizer.zero_grad(set_to_none=False)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state.parameters.values(), recipe.clip)
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate(recipe, state.step, total)
    state.optimizer.step()
    state.step += 1
    # A young mean forgets faster, or it would remember the random start for a thousand steps.
    decay = min(recipe.averaging, (state.step + 1) / (state.step + 10))
    for name, parameter in state.parameters.items():
        state.average[name].lerp_(parameter.detach(), 1 - decay)
    right = (logits.argmax(-1) == (batch.plural > 0.5)).float().mean()
    return loss.item(), right.item()


def _remaining(lessons: Lessons, recipe: Recipe, pad: int, done: int, per_epoch: int) -> Iterator[LessonBatch]:
    for epoch in range(done // per_epoch, recipe.epochs):
        batches = epoch_batches(lessons.sources, lessons.token_ids, recipe, epoch, pad)
        yield from batches[max(0, done - epoch * per_epoch) :]


def _on_development(model: Any, tokenizer: Any, lessons: Lessons, state: TrainingState) -> str:
    """Accuracy of the averaged weights on the development lines, natural and selected ones apart."""
    files = [[line for line in lessons.development if line.natural is natural] for natural in (True, False)]
    current = {name: parameter.detach().clone() for name, parameter in state.parameters.items()}
    state.use_average()
    found = accuracies(model, tokenizer, files, ["natural", "selected"])
    for name, parameter in state.parameters.items():
        parameter.data.copy_(current[name])
    return "; ".join(f"{accuracy.of} {accuracy.share:.4f}" for accuracy in found)


@dataclass
class _RunningMean:
    """A mean that remembers about a hundred steps, for the progress bar only."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> str:
        self.total, self.weight = 0.99 * self.total + value, 0.99 * self.weight + 1
        return f"{self.total / self.weight:.3f}"


_PAPERS_ACCURACY = 0.96
_LOW = 0.9


def write_card(directory: Path, description: Mapping[str, Any], found: Sequence[Accuracy]) -> None:
    """`README.md` in the model's directory, where the hub and people look for it."""
    (directory / "README.md").write_text("\n".join(_lines(description, found)) + "\n", encoding="utf-8")


def _lines(description: Mapping[str, Any], found: Sequence[Accuracy]) -> list[str]:
    recipe = dict(description["recipe"])
    seed = recipe.pop("seed")
    name = description["name"]
    earlier = [f"{role} `{description[role]}`" for role in ("body", "teacher", "start") if description[role]]
    return [
        "# attnx verb-number",
        "",
        "From the words before a verb: is the verb singular (VBZ) or plural (VBP)? "
        "Made by `python -m examples.training.train verb-number`, "
        + (f"recipe `{name}`, " if name else "")
        + f"seed {seed}, split of seed {description['split_seed']}"
        + "".join(f", {name}" for name in earlier)
        + ".",
        "",
        "## Accuracy",
        *_accuracy(found),
        "",
        "## Recipe",
        "| setting | value |",
        "|---|---|",
        *(f"| `{setting}` | {value} |" for setting, value in recipe.items()),
    ]


def _accuracy(found: Sequence[Accuracy]) -> list[str]:
    if not found:
        return ["Not known: there were too few lines to hold any out."]
    first = found[0]
    short = "" if first.share >= _LOW else f" **It does not reach {_LOW:.0%} on {first.of}.**"
    return [
        f"On sentences that were held out of its training. The paper reports {_PAPERS_ACCURACY} for its own model, on "
        f"its own test set.{short}",
        "",
        "| held-out sentences | number | accuracy | 95 % interval |",
        "|---|---:|---:|---:|",
        *(
            f"| {accuracy.of} | {accuracy.total:,} | {accuracy.share:.4f} | "
            f"{accuracy.interval[0]:.3f}–{accuracy.interval[1]:.3f} |"
            for accuracy in found
        ),
    ]


def from_body(body: Path) -> tuple[Any, Any]:
    """A classifier on a pretrained body, and its tokenizer with each POS tag as one token.

    A tag begins as a frequent word of its kind: NNS as "things".
    """
    tokenizer = AutoTokenizer.from_pretrained(saved_model(body))
    names = dict(enumerate(LABELS))
    model = AutoModelForSequenceClassification.from_pretrained(
        body, id2label=names, label2id={name: index for index, name in names.items()}
    ).float()
    tokenizer.add_tokens([AddedToken(tag, single_word=True, normalized=False) for tag in TAG_EXAMPLES])
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    vectors = model.get_input_embeddings().weight
    with torch.no_grad():
        for tag, example in TAG_EXAMPLES.items():
            vectors[tokenizer.convert_tokens_to_ids(tag)] = _mean_vector(example, tokenizer, vectors)
    return model, tokenizer


def word_vectors(directory: Path, words: Sequence[str], width: int) -> Tensor:
    """The words' vectors in a pretrained model, word × width: word pieces averaged, then reduced by PCA.

    The scale is one: the variance over all entries.
    """
    tokenizer = AutoTokenizer.from_pretrained(saved_model(directory))
    embedding: Tensor = AutoModel.from_pretrained(directory).float().get_input_embeddings().weight.detach()
    if width > embedding.shape[1]:
        raise InputError(f"the vectors in {directory} have {embedding.shape[1]} dimensions, the model asks for {width}")
    vectors = torch.stack([_mean_vector(word, tokenizer, embedding) for word in words]).double()
    centred = vectors - vectors.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:width]
    reduced: Tensor = centred @ directions.T
    return (reduced / reduced.std()).float()


def _mean_vector(word: str, tokenizer: Any, vectors: Tensor) -> Tensor:
    pieces = tokenizer(word, add_special_tokens=False)["input_ids"] or [tokenizer.unk_token_id]
    return vectors[pieces].mean(0)


def taught(
    split: Split,
    labelled: Sequence[LessonSource],
    words: Sequence[str],
    teacher: Path,
    recipe: Recipe,
    cache: Path,
    progress: bool,
) -> list[LessonSource]:
    """The labelled sources, with the teacher's opinion for a label where the recipe says so; and what it alone labels.

    Those are shorter beginnings and single words. Its opinions are kept in `cache` for a run that resumes.
    """
    again = [example.text for source in labelled for example in source.examples] if recipe.soft_labels else []
    cut = prefixes(split) if recipe.prefixes else []
    single = noun_phrases(words, split) if recipe.noun_phrases else []
    texts = [*again, *cut, *single]
    if not cache.is_file():
        plural = plural_probabilities(*load_trained(teacher), texts, progress=progress)
        write_atomically({"plural": plural}, cache, {})
    opinions = load_file(cache)["plural"].tolist()
    examples = iter([Example(text, plural) for text, plural in zip(texts, opinions, strict=True)])

    def next_of(count: int, per_epoch: int | None) -> LessonSource:
        return LessonSource(list(islice(examples, count)), per_epoch)

    kept = (
        [next_of(len(lesson_source.examples), lesson_source.per_epoch) for lesson_source in labelled]
        if recipe.soft_labels
        else list(labelled)
    )
    return [*kept, next_of(len(cut), recipe.prefixes), next_of(len(single), recipe.noun_phrases)]


_PRETRAINED_VECTOR_SCALE = 0.05


@dataclass(frozen=True)
class TrainingRun:
    """One run, and all that its weights depend on."""

    files: tuple[str, ...]
    split: Split
    split_seed: int
    recipe: Recipe
    out: Path
    name: str | None = None
    """Of the recipe that the run is a part of."""
    config: VerbNumberConfig | LstmConfig | None = None
    body: Path | None = None
    teacher: Path | None = None
    start: Path | None = None

    @property
    def description(self) -> dict[str, Any]:
        """What is written down of a run; two runs of the same description end with the same weights."""
        earlier = {"body": self.body, "teacher": self.teacher, "start": self.start}
        return {
            "name": self.name,
            "recipe": self.recipe.as_dict(),
            "split_seed": self.split_seed,
            **{role: directory and directory.name for role, directory in earlier.items()},
            "data_sha256": self.split.digest,
        }


def train(
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    epochs: int | None = None,
    body: Path | None = None,
    teacher: Path | None = None,
    start: Path | None = None,
    recipe: Recipe | None = None,
    config: VerbNumberConfig | LstmConfig | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Accuracy]:
    """Train on the files, write the model to `out`, and return its accuracy on what was held out of each file.

    With a `teacher`, the `out` of an earlier run with `body`, the model starts from the teacher's word vectors and
    learns its opinions of shorter beginnings and of single words beside the labels. With a `body`, a directory of a
    pretrained encoder, that encoder is fine-tuned instead. With `start`, the `out` of a finished run, training goes on
    from its weights with a new schedule. `recipe` and `config` replace the numbers of the training and the shape of
    the model. `resume` continues a run that was interrupted, from its last save.
    """
    if body is not None and (teacher is not None or start is not None):
        raise InputError("give a body (to train a teacher) or a teacher or start (to learn from), not both")
    recipe = recipe or (TEACHER if body else CONTINUED if start else STUDENT if teacher else ALONE)
    recipe = replace(recipe, seed=seed, epochs=recipe.epochs if epochs is None else epochs)
    job = TrainingRun(
        files=tuple(path.name for path in data),
        split=split_files(data, seed=seed),
        split_seed=seed,
        recipe=recipe,
        out=out,
        config=config,
        body=body,
        teacher=teacher,
        start=start,
    )
    if resume:
        check_begun(out)
    else:
        check_new(out)
    return carry_out(job, progress=progress)


def check_new(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out} exists; choose another directory, or resume the run in it (resume)")


def check_begun(out: Path) -> None:
    if not (out / "training.json").is_file():
        raise InputError(f"{out} holds no run to resume (no training.json in it); start one without resume")


def carry_out(job: TrainingRun, *, progress: bool) -> list[Accuracy]:
    """From wherever the run stands to its end: a finished one is only evaluated."""
    _check_same_run(job)
    for earlier in filter(None, (job.teacher, job.start)):
        require_same_split(earlier, job.split.digest)
    out, report = job.out, job.out / "evaluation.json"
    if not report.is_file():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.recipe.seed)
            if job.body is not None:
                model, tokenizer = from_body(job.body)
            elif job.start is not None:
                model, tokenizer = _go_on(job.start, job.recipe)
            else:
                model, tokenizer = _new_model(job)
            _learn(model, tokenizer, job, progress)
        checkpoint.save(model, tokenizer, out)
    # What is reported is the saved model, read back from its half precision.
    model, tokenizer = load_trained(out)
    result = accuracies(model, tokenizer, job.split.test, job.files)
    lines = [
        {"of": accuracy.of, "right": accuracy.right, "total": accuracy.total, "accuracy": accuracy.share}
        for accuracy in result
    ]
    write_card(out, job.description, result)
    report.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    for name in ("state.safetensors", "opinions.safetensors"):
        (out / name).unlink(missing_ok=True)
    return result


def _learn(model: Any, tokenizer: Any, job: TrainingRun, progress: bool) -> None:
    """Bring the lessons together and run the loop. The directory is made once nothing in the data can be refused."""
    split, recipe, out = job.split, job.recipe, job.out
    sources = labelled_sources(split, recipe)
    positions = model.config.max_position_embeddings
    everything = [line.text for part in (split.train, split.development, split.test) for file in part for line in file]
    ids = tokenize([*everything, *_texts(sources)], tokenizer, positions)
    out.mkdir(parents=True, exist_ok=True)
    write_note(out, job.description)
    if job.teacher is not None:
        words = sorted(word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens)
        sources = taught(split, sources, words, job.teacher, recipe, out / "opinions.safetensors", progress)
        ids |= tokenize([text for text in _texts(sources) if text not in ids], tokenizer, positions)
    lessons = Lessons(sources, ids, [line for file in split.development for line in file])
    fit(model, tokenizer, lessons, recipe, out / "state.safetensors", progress=progress)


def _new_model(job: TrainingRun) -> tuple[Any, Any]:
    """A new model for the words of the training part and of the generator."""
    config = job.config or VerbNumberConfig()
    known = vocabulary(line.text for file in job.split.train for line in file)
    words = dict.fromkeys([*known, *(word for word in lexicon.words() if word not in TAG_EXAMPLES)])
    tokenizer = build_tokenizer(words, config.max_position_embeddings)
    config.vocab_size = len(tokenizer)
    config.pad_token_id = tokenizer.pad_token_id
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    config.update(job.recipe.dropouts)
    if isinstance(config, LstmConfig):
        return LstmForSequenceClassification(config), tokenizer
    model: Any = VerbNumberForSequenceClassification(config)
    if job.teacher is not None and job.recipe.teachers_vectors:
        entries = [*TAG_EXAMPLES, *words]
        vectors = word_vectors(job.teacher, entries, config.hidden_size) * _PRETRAINED_VECTOR_SCALE
        model.get_input_embeddings().weight.data[tokenizer.convert_tokens_to_ids(entries)] = vectors
    return model, tokenizer


def _go_on(start: Path, recipe: Recipe) -> tuple[Any, Any]:
    """The model of a finished run, with the dropouts of the new recipe."""
    earlier, tokenizer = checkpoint.load(start)
    config: Any = earlier.config
    config.update(recipe.dropouts)
    model = VerbNumberForSequenceClassification(config)
    model.load_state_dict(earlier.state_dict())
    return model, tokenizer


def _texts(sources: Sequence[LessonSource]) -> list[str]:
    return [example.text for source in sources for example in source.examples]


def _check_same_run(job: TrainingRun) -> None:
    """What was begun in the directory must have been begun with the same data and recipe."""
    if not (job.out / "training.json").is_file():
        return
    begun, description = read_note(job.out), job.description
    changed = [key for key in description if begun.get(key) != description[key]]
    if changed:
        raise InputError(
            f"the run in {job.out} was begun with other {', '.join(changed)}; repeat its settings, or start anew"
        )


SPLIT_SEED = 0
"""Of all named recipes, as of the model that ships with attnx."""

PLAIN = replace(ALONE, epochs=8, word_dropout=0.0, attractor_lines=6_000, generated=0, joined=0)
"""Cross-entropy on the labels of the files' own lines, and small dropouts."""

PAPER = replace(PLAIN, epochs=6, dropout=0.4, embedding_dropout=0.2, attention_dropout=0.6)
"""With the dropouts of the authors' run."""

LSTM = PLAIN
"""For the teacher of the authors' student."""

AUTHORS = replace(PAPER, soft_labels=True, teachers_vectors=False, masks_padding=False, sorted_batches=1)
"""The student learns the teacher's probabilities alone, in shuffled batches, and takes their padding for words.

Two thirds of such a batch are padding, so an epoch costs three times as much as one of `PAPER`.
"""


@dataclass(frozen=True)
class Stage:
    """One run of a recipe. The model of the last is the recipe's; earlier ones lie in folders of their name in it."""

    recipe: Recipe
    name: str = ""
    model: str = "attention"
    """What learns: the paper's `attention` model, an `lstm`, or a pretrained `body` that the caller brings."""
    teacher: str | None = None
    start: str | None = None
    """Earlier runs, by name."""


RECIPES: Mapping[str, tuple[Stage, ...]] = {
    "ours": (
        Stage(TEACHER, "teacher", model="body"),
        Stage(STUDENT, "student", teacher="teacher"),
        Stage(CONTINUED, teacher="teacher", start="student"),
    ),
    "plain": (Stage(PLAIN),),
    "paper": (Stage(PAPER),),
    "authors": (Stage(LSTM, "teacher", model="lstm"), Stage(AUTHORS, teacher="teacher")),
}


def train_recipe(
    name: str,
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    body: Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Accuracy]:
    """Train by a recipe of `RECIPES`, write the model to `out`, and return its accuracy on what was held out.

    `body` is the pretrained encoder that `ours` makes its teacher of. The same files, seed and recipe give the same
    weights; `resume` goes on where the recipe was interrupted, in whichever run.
    """
    runs = _runs(name, body)
    if not resume:
        check_new(out)
    elif not out.is_dir():
        raise InputError(f"there is no {out} to resume a run in; start one without resume")
    split = split_files(data, seed=SPLIT_SEED)
    result: list[Accuracy] = []
    for run in runs:
        job = TrainingRun(
            files=tuple(path.name for path in data),
            split=split,
            split_seed=SPLIT_SEED,
            recipe=replace(run.recipe, seed=seed),
            out=out / run.name,
            name=name,
            config=LstmConfig() if run.model == "lstm" else None,
            body=body if run.model == "body" else None,
            teacher=out / run.teacher if run.teacher else None,
            start=out / run.start if run.start else None,
        )
        result = carry_out(job, progress=progress)
    return result


def _runs(name: str, body: Path | None) -> tuple[Stage, ...]:
    if name not in RECIPES:
        raise InputError(f"there is no recipe {quoted(name)}; there are {', '.join(RECIPES)}")
    runs = RECIPES[name]
    needs_body = any(run.model == "body" for run in runs)
    if needs_body and body is None:
        raise InputError(
            f"the recipe {name} makes a teacher of a pretrained encoder: give its directory (body), of "
            "all-MiniLM-L6-v2 for the model that ships with attnx"
        )
    if body is not None and not needs_body:
        raise InputError(f"the recipe {name} takes no pretrained encoder (body): it learns from the files alone")
    return runs
