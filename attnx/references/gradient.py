"""Input gradients: the derivative of a class's score by the embedding of each position (§4).

The embeddings go in as `inputs_embeds`, so that what is differentiated is the token alone: its position is added
afterwards, inside the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import Prepared, adapter_for
from attnx.adapters.batch import collate
from attnx.capture.watch import undisturbed, unwrapped
from attnx.errors import ChoiceError, InputError
from attnx.references.batches import TOKENS_AT_ONCE, bar, batches, bounded
from attnx.references.class_score import chosen_classes, class_logits, class_probabilities
from attnx.registry import unknown

Array = np.ndarray[Any, np.dtype[np.float64]]
Score = Literal["logit", "probability difference"]
Reduction = Literal["sum", "absolute sum", "norm"]

REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda gradient: gradient.sum(-1),
    "absolute sum": lambda gradient: gradient.sum(-1).abs(),
    "norm": lambda gradient: gradient.norm(dim=-1),
}
"""From a vector for each position to a number: the signed sum over its dimensions, that without its sign, L2."""


def gradient(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    *,
    targets: Sequence[int] | None = None,
    score: Score = "logit",
    reduction: Reduction = "norm",
    tokens_at_once: int = TOKENS_AT_ONCE,
    progress: bool = False,
) -> list[Array]:
    """For each position of each input, the gradient of the class's `score` by its embedding, reduced to a number.

    `targets` are the classes to explain, by default the predicted ones. The score is the class's logit or, for a model
    of two classes, the difference p0 − p1, which does not depend on the target.
    """
    model = unwrapped(model)
    if reduction not in REDUCTIONS:
        raise ChoiceError(unknown("reduction", reduction, REDUCTIONS))
    if score not in ("logit", "probability difference"):
        raise ChoiceError(unknown("score", score, ("logit", "probability difference")))
    if "inputs_embeds" not in signature(model.forward).parameters:
        raise InputError(f"{type(model).__name__} takes no inputs_embeds, so it has no gradients here; use blankout")
    embeddings = adapter_for(model).embedding_module(model)
    pad_id, bound = bounded(model, tokenizer, tokens_at_once)
    scores: dict[int, Array] = {}
    with undisturbed(model, graph=True), bar("gradients", len(prepared), progress) as shown:
        for rows in batches([len(one.positions) for one in prepared], bound):
            inputs = collate(model, [prepared[row] for row in rows], pad_id)
            embedded = embeddings(inputs.pop("input_ids")).detach().requires_grad_()
            logits = class_logits(model, model(inputs_embeds=embedded, **inputs))
            asked = None if targets is None else [targets[row] for row in rows]
            # Inputs of a batch do not see each other, so the gradient of the sum is each input's own.
            (slope,) = torch.autograd.grad(_score(model, logits, asked, score).sum(), embedded)
            for row, values in zip(rows, REDUCTIONS[reduction](slope.double()), strict=True):
                scores[row] = values[: len(prepared[row].positions)].cpu().numpy()
            shown.update(len(rows))
    return [scores[row] for row in range(len(prepared))]


def _score(model: nn.Module, logits: Tensor, targets: Sequence[int] | None, score: Score) -> Tensor:
    """One number for each input of the batch, part of the autograd graph."""
    if score == "logit":
        return logits.gather(1, chosen_classes(logits, targets)[:, None])[:, 0]
    if logits.shape[-1] != 2:
        raise ChoiceError(f"a probability difference needs two classes, model has {logits.shape[-1]}")
    probabilities = class_probabilities(model, logits)
    return probabilities[:, 0] - probabilities[:, 1]
