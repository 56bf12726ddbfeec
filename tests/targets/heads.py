"""Tiny random models of three families with every kind of head, and the number of each by a direct run of the model.

`Direct.score` takes the model's own forward and its output's own fields, and nothing of attnx.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as hf

from tests import zoo

TEXT = "the key to the cabinets is on a table"
PAIR = ("the key is on", "the author talked to Sara about a dull book")
QUESTION = ("the author said", ["it was plain", "hello world, the movie was a dull film", "she talked"])

FAMILIES: dict[str, tuple[str, Callable[[], Any]]] = {
    "bert": ("Bert", lambda: hf.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **zoo.WIDTH)),
    "albert": (
        "Albert",
        lambda: hf.AlbertConfig(
            vocab_size=VOCABULARY, embedding_size=16, max_position_embeddings=64, classifier_dropout_prob=0, **zoo.WIDTH
        ),
    ),
    "distilbert": (
        "DistilBert",
        lambda: hf.DistilBertConfig(
            vocab_size=VOCABULARY, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64
        ),
    ),
    "mobilebert": (
        "MobileBert",
        lambda: hf.MobileBertConfig(
            vocab_size=VOCABULARY, embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32, **zoo.WIDTH
        ),
    ),
    "ernie": ("Ernie", lambda: hf.ErnieConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **zoo.WIDTH)),
}
VOCABULARY = len(zoo.wordpiece_tokenizer())
THREE = ("bert", "albert", "distilbert")


@dataclass(frozen=True)
class Head:
    """A kind of head: its class, what is given to it, and the target's logits read off its output by hand."""

    name: str
    ending: str
    given: Any
    logit: Callable[[Any, Any], torch.Tensor]
    """(output, target as index or (start, end)) → the target's own number."""
    families: tuple[str, ...] = THREE
    config: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    """Of `explain`."""


def _class(output: Any, index: int) -> torch.Tensor:
    return output.logits[0, index]


HEADS = {
    one.name: one
    for one in (
        Head("class", "ForSequenceClassification", TEXT, _class, config=(("num_labels", 3),)),
        Head(
            "label",
            "ForSequenceClassification",
            TEXT,
            _class,
            config=(("num_labels", 3), ("problem_type", "multi_label_classification")),
        ),
        Head(
            "value",
            "ForSequenceClassification",
            TEXT,
            _class,
            config=(("num_labels", 1), ("problem_type", "regression"), ("id2label", {0: "stars"})),
        ),
        Head(
            "tag",
            "ForTokenClassification",
            TEXT,
            lambda output, index: output.logits[0, 2, index],
            config=(("num_labels", 5),),
            options=(("position", 2),),
        ),
        Head(
            "span",
            "ForQuestionAnswering",
            PAIR,
            lambda output, span: output.start_logits[0, span[0]] + output.end_logits[0, span[1]],
        ),
        Head("choice", "ForMultipleChoice", QUESTION, _class),
        Head(
            "next sentence",
            "ForNextSentencePrediction",
            PAIR,
            _class,
            families=("bert", "mobilebert", "ernie"),
        ),
    )
}
CASES = [(head, family) for head, one in HEADS.items() for family in one.families]


@cache
def model(head: str, family: str) -> Any:
    """In double precision, so that a difference is one of meaning and not of rounding."""
    torch.manual_seed(3)
    prefix, config = FAMILIES[family]
    made = config()
    for name, value in HEADS[head].config:
        setattr(made, name, value)
    built = getattr(hf, prefix + HEADS[head].ending)(made).double().eval()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if parameter.ndim == 2 and "embed" not in name:
                parameter.mul_(4 if family != "mobilebert" else 2)
    return built


def encoded(head: str, family: str, choice: int | None = None) -> dict[str, torch.Tensor]:
    """What the model reads, batch first; of multiple choice one choice alone, or all."""
    tokenizer = zoo.wordpiece_tokenizer()
    given = HEADS[head].given
    if head == "choice":
        choices = given[1] if choice is None else [given[1][choice]]
        found = tokenizer([given[0]] * len(choices), choices, return_tensors="pt", padding=True)
        found = {name: tensor[None] for name, tensor in found.items()}
    else:
        found = dict(tokenizer(*((given,) if isinstance(given, str) else given), return_tensors="pt"))
    if family == "distilbert":
        found.pop("token_type_ids", None)
    return found
