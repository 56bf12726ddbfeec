"""The sentences of Table 3: the first ones of SST-2's test split, from GLUE or from a local copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.adapters import Prepared, adapter_for
from attnx.errors import AttnxError, InputError
from attnx.texts import LabelledText, read_texts

_HIDDEN = -1
"""What GLUE gives as the label of a test sentence."""


@dataclass(frozen=True, eq=False)
class Reviews:
    """Sentences ready for the model, their labels where they are public, and a word on where they come from."""

    prepared: Sequence[Prepared]
    labels: Sequence[int | None]
    source: str

    def __len__(self) -> int:
        return len(self.prepared)

    def first(self, count: int) -> Reviews:
        return Reviews(self.prepared[:count], self.labels[:count], self.source)


def reviews(model: Any, tokenizer: Any, data: Path | None, samples: int) -> Reviews:
    """The first `samples` sentences: of a file with a label and a sentence in each row, or of GLUE."""
    if samples < 1:
        raise InputError(f"--samples must be at least 1, found {samples}")
    texts = _glue(samples) if data is None else read_texts(data, limit=samples)
    prepare = adapter_for(model).prepare
    return Reviews(
        prepared=[prepare(model, tokenizer, one.text) for one in texts],
        labels=[_label(one) for one in texts],
        source="GLUE SST-2 test" if data is None else data.name,
    )


def _glue(samples: int) -> list[LabelledText]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise AttnxError("GLUE is read with datasets: pip install 'attnx[glue]', or give a file: --data") from error
    try:
        rows = load_dataset("nyu-mll/glue", "sst2", split="test")
    except Exception as error:  # whatever an unreachable hub can lead to
        reason = str(error).strip().split("\n")[0]
        raise AttnxError(f"cannot read GLUE SST-2 from the hub: {reason}; give a local copy: --data") from error
    return [
        LabelledText(row["sentence"].strip(), str(row["label"])) for row in rows.select(range(min(samples, len(rows))))
    ]


def _label(one: LabelledText) -> int | None:
    try:
        label = None if one.label is None else int(one.label)
    except ValueError:
        raise InputError(f"label {one.label!r} of {one.text[:40]!r} is not 0 (negative) or 1 (positive)") from None
    return None if label == _HIDDEN else label
