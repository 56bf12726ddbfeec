"""Blank-out: how much the class's probability changes when one position is replaced by a blank token (§4).

Every blanked variant of every input is one row of some batch; rows of like length share it, whatever input they
come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from attnx.adapters import Prepared, adapter_for
from attnx.adapters.batch import collate
from attnx.capture.watch import undisturbed, unwrapped
from attnx.errors import InputError
from attnx.references.batches import TOKENS_AT_ONCE, bar, batches, bounded
from attnx.references.class_score import chosen_classes, class_logits, class_probabilities

Array = np.ndarray[Any, np.dtype[np.float64]]


def blankout(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    *,
    targets: Sequence[int] | None = None,
    positions: Sequence[Sequence[int]] | None = None,
    blank_id: int | None = None,
    tokens_at_once: int = TOKENS_AT_ONCE,
    progress: bool = False,
) -> list[Array]:
    """|p(class) − p'(class)| for each position of each input, where p' is after that position was replaced.

    `targets` are the classes to explain, by default the predicted ones. `positions` says for each input which
    positions to replace, by default all that are not special tokens; the others score 0. The blank is the first
    token of the adapter's list that the tokenizer has, or `blank_id`.
    """
    model = unwrapped(model)
    blank = adapter_for(model).blank_token_id(tokenizer) if blank_id is None else blank_id
    chosen = [content_positions(one) for one in prepared] if positions is None else positions
    for name, given in (("positions", positions), ("targets", targets)):
        if given is not None and len(given) != len(prepared):
            raise InputError(f"{name} for {len(given)} inputs, expected one for each of {len(prepared)}")
    scores = [np.zeros(len(one.positions)) for one in prepared]
    pad_id, bound = bounded(model, tokenizer, tokens_at_once)
    whole: dict[int, float] = {}
    classes: dict[int, int] = {}
    with undisturbed(model), bar("blank-out", sum(map(len, chosen)) + len(prepared), progress) as shown:
        for rows, logits in _run(model, prepared, pad_id, bound):
            asked = chosen_classes(logits, None if targets is None else [targets[row] for row in rows])
            probabilities = class_probabilities(model, logits).gather(1, asked[:, None])[:, 0]
            classes |= dict(zip(rows, asked.tolist(), strict=True))
            whole |= dict(zip(rows, probabilities.tolist(), strict=True))
            shown.update(len(rows))
        places = [(index, position) for index, several in enumerate(chosen) for position in several]
        blanked = _Blanked(prepared, places, blank)
        for rows, logits in _run(model, blanked, pad_id, bound):
            probabilities = class_probabilities(model, logits)
            for row, probability in zip(rows, probabilities.tolist(), strict=True):
                index, position = places[row]
                scores[index][position] = abs(whole[index] - probability[classes[index]])
            shown.update(len(rows))
    return scores


def content_positions(prepared: Prepared) -> list[int]:
    """The positions that are no special tokens."""
    return [one.index for one in prepared.positions if not one.special]


class _Blanked(Sequence[Prepared]):
    """All variants, each made when it is asked for: as inputs they would be many times the size of the originals."""

    def __init__(self, prepared: Sequence[Prepared], places: Sequence[tuple[int, int]], blank: int) -> None:
        self._prepared, self._places, self._blank = prepared, places, blank

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, row: Any) -> Any:
        index, position = self._places[row]
        one = self._prepared[index]
        ids = one.inputs["input_ids"].clone()
        ids[position] = self._blank
        return replace(one, inputs={**one.inputs, "input_ids": ids})


def _run(
    model: nn.Module, prepared: Sequence[Prepared], pad_id: int | None, bound: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Rows and their class logits, a batch at a time."""
    for rows in batches([len(one.positions) for one in prepared], bound):
        inputs = collate(model, [prepared[row] for row in rows], pad_id)
        yield rows, class_logits(model, model(**inputs)).float()
