"""The sentences that a table is made from: generated ones, or lines of files in Linzen's format."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.adapters import LabelledText, PreparedInput, adapter_for, read_texts
from attnx.demo_models import LABELS, Beginning, read, require_same_split, split_files, split_seed
from attnx.demo_models.verb_number_data import generate
from attnx.errors import AttnxError, InputError, first_line

_NOT_TRAINING = 1_000_000
"""Added to the seed, for the same seed would give the very sentences that a model was trained with."""


@dataclass(frozen=True, eq=False)
class LabeledSentence:
    """A sentence that is ready for the model, its label where that is public, and the beginning that it was made of."""

    prepared: PreparedInput
    label: int | None
    beginning: Beginning | None = None

    @property
    def digest(self) -> str:
        return f"{self.prepared.digest} {self.label} {self.beginning or ''}"


@dataclass(frozen=True, eq=False)
class Sentences:
    """What a table is made from, and where it comes from."""

    items: Sequence[LabeledSentence]
    source: str

    def __len__(self) -> int:
        return len(self.items)

    @property
    def prepared(self) -> list[PreparedInput]:
        return [item.prepared for item in self.items]

    @property
    def labels(self) -> list[int | None]:
        return [item.label for item in self.items]

    @property
    def beginnings(self) -> list[Beginning]:
        return [item.beginning for item in self.items if item.beginning is not None]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of how the sentences were read."""
        count = sum(bool(item.prepared.notes) for item in self.items)
        if not count:
            return ()
        return (f"{count:,} of {len(self):,} sentences have words that are not in the vocabulary, read as unknown",)


def prepare(model: Any, tokenizer: Any, beginnings: Sequence[Beginning], source: str) -> Sentences:
    """Tokenise; a sentence that the model has no positions for is an error that shows the sentence."""
    _check_labels(model)
    adapter = adapter_for(model)
    items = []
    for number, beginning in enumerate(beginnings, start=1):
        try:
            prepared = adapter.prepare(model, tokenizer, beginning.text)
            items.append(LabeledSentence(prepared, beginning.label, beginning))
        except InputError as error:
            reason = str(error).partition(";")[0]
            raise InputError(
                f"sentence {number} of {source} ({beginning.text[:40]}…): {reason}; leave it out of the data"
            ) from None
    return Sentences(items, source)


def _check_labels(model: Any) -> None:
    """Singular and plural, in this order. A model that does not name its two classes is known by its accuracy."""
    named = [str(name).lower() for _, name in sorted(model.config.id2label.items())]
    if named not in (list(LABELS), [f"label_{index}" for index in range(len(LABELS))]):
        raise InputError(
            f"the task asks whether the verb to come is {' or '.join(LABELS)}, and the model's classes are "
            f"{', '.join(map(str, named[:5]))}; give a verb-number model (examples/training makes one), or for a "
            "sentiment model use attnx compare, or reproduce table3"
        )


def generated(samples: int, seed: int, attractors: int | None = None) -> tuple[list[Beginning], str]:
    """Sentences from the task's grammar, which needs no data."""
    _check_samples(samples)
    kind = "" if attractors is None else f" with {attractors} attractors"
    return generate(samples, seed=seed + _NOT_TRAINING, attractors=attractors), f"the generator{kind}, seed {seed}"


def from_files(data: Sequence[Path], samples: int, seed: int) -> tuple[list[Beginning], str]:
    """Draw this many lines from the files, in their order; all of them where there are no more."""
    return _drawn(read(data), samples, seed), ", ".join(path.name for path in data)


def never_trained_on(
    model_directory: Path, data: Sequence[Path], samples: int, *, with_subject: bool = False
) -> tuple[list[Beginning], str]:
    """Natural lines that the model was tested on and never trained with, given the files of its training in order.

    The first file that has such lines comes first; the split has shuffled them already. A model that was trained with
    other files, or in another order, is an error: what it has seen of these is not known.
    """
    _check_samples(samples)
    split = split_files(data, seed=split_seed(model_directory))
    require_same_split(model_directory, split.digest)
    lines: list[Beginning] = []
    used: list[str] = []
    for path, part in zip(data, split.test, strict=True):
        natural = [line for line in part if line.natural and (line.subject is not None or not with_subject)]
        chosen = natural[: samples - len(lines)]
        lines += chosen
        used += [path.name] if chosen else []
    if not lines:
        raise InputError("none of the files holds out natural sentences" + " with a subject" * with_subject)
    return lines, f"{', '.join(used)}, held out of the training"


def _drawn(lines: list[Beginning], samples: int, seed: int) -> list[Beginning]:
    _check_samples(samples)
    if samples >= len(lines):
        return lines
    chosen = sorted(random.Random(f"sentences {seed}").sample(range(len(lines)), samples))
    return [lines[index] for index in chosen]


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise InputError(f"--samples must be at least 1, found {samples}")


KEY = "the key to the cabinets"
ARTICLE = "the article on NNP large systems"
FEMALE = "here the NNS differ in that the female"

PAPER_SENTENCES = (KEY, ARTICLE, FEMALE)

_FILE = "--data FILE, a .tsv, .csv or .jsonl with the columns label (0 or 1) and sentence, such as SST-2's dev.tsv"
_HIDDEN = -1
"""What GLUE gives as the label of a test sentence."""


def reviews(model: Any, tokenizer: Any, data: Path | None, samples: int) -> Sentences:
    """The first `samples` sentences: of a file with a label and a sentence in each row, or of GLUE."""
    _check_samples(samples)
    texts = _glue(samples) if data is None else read_texts(data, limit=samples)
    prepare = adapter_for(model).prepare
    items = [LabeledSentence(prepare(model, tokenizer, text.text), _label(text)) for text in texts]
    return Sentences(items, "GLUE SST-2 test" if data is None else data.name)


def _glue(samples: int) -> list[LabelledText]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise AttnxError(f"GLUE is read with datasets: pip install 'attnx[glue]', or give a file: {_FILE}") from error
    try:
        rows = load_dataset("nyu-mll/glue", "sst2", split="test")
    except Exception as error:  # whatever an unreachable hub can lead to
        reason = first_line(error)
        raise AttnxError(
            f"cannot read GLUE SST-2 from the hub: {reason} Without a hub, give a file: {_FILE}"
        ) from error
    return [
        LabelledText(row["sentence"].strip(), str(row["label"])) for row in rows.select(range(min(samples, len(rows))))
    ]


def _label(labelled_text: LabelledText) -> int | None:
    try:
        label = None if labelled_text.label is None else int(labelled_text.label)
    except ValueError:
        raise InputError(
            f"label {labelled_text.label!r} of {labelled_text.text[:40]!r} is not 0 (negative) or 1 (positive)"
        ) from None
    return None if label == _HIDDEN else label
