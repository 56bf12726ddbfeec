"""An answer at each position: a token of the vocabulary, or a tag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.kind import AnswerKind, Told
from attnx.answer.kinds.classes import class_prediction, class_score
from attnx.answer.named import pieces_of, split, token_index
from attnx.answer.output import LANGUAGE_MODELS, class_count, class_names, head_output
from attnx.answer.prediction import Prediction
from attnx.inputs.model_facts import has_head

_TOKENS_KEPT = 20
"""Of a vocabulary only the best are kept: all logits of a language model would outweigh the whole explanation."""


def _by_position(model: nn.Module, output: Any) -> Tensor | None:
    logits = head_output(model, output)
    return logits if logits is not None and logits.ndim == 3 else None


def _tags(model: nn.Module, output: Any) -> Tensor | None:
    logits = _by_position(model, output)
    if logits is None or logits.shape[-1] != class_count(model) or has_head(model, *LANGUAGE_MODELS):
        return None
    return logits


def _tag(told: Told) -> Prediction:
    return class_prediction(told, "tag", class_names(told.model, len(told.logits)))


def _token(told: Told) -> Prediction:
    tokenizer, logits = told.processor, told.logits
    index, rival = told.chosen(logits, lambda asked: token_index(asked, tokenizer, len(logits)))
    against = None if rival is None else tokenizer.decode([rival])
    best = logits.topk(min(_TOKENS_KEPT, len(logits)))
    labels = tuple(tokenizer.decode([int(one)]) for one in best.indices)
    shares = torch.softmax(logits, -1)
    return Prediction(
        "token",
        tokenizer.decode([index]),
        index,
        shares[index].item(),
        labels,
        tuple(best.values.tolist()),
        against,
        rival,
        predicted_probability=told.best_probability(index, shares),
    )


def _piece_notes(told: Told, prediction: Prediction) -> tuple[str, ...]:
    """What a user must know of a target that is more than one token: only the first is explained."""
    tokenizer, notes = told.processor, []
    for target in split(told.target):
        ids = pieces_of(target, tokenizer) if isinstance(target, str) else []
        if len(ids) > 1:
            pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
            notes.append(
                f"target {target!r} is {len(ids)} tokens here ({pieces}): the first is explained; of a decoder, a "
                "generation with that continuation explains all of them"
            )
    return tuple(notes)


TAG = AnswerKind("tag", logits=_tags, prediction=_tag, score=class_score, at_each=True)
TOKEN = AnswerKind("token", logits=_by_position, prediction=_token, score=class_score, at_each=True, notes=_piece_notes)
