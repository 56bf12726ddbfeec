"""Recall: in "k3 v7 k1 v2 k8 v5 k1" the next word is v2, and it can be had from one place only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.tasks.recall import generator
from attnx.truth.answers import token_of_each
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Texts without end."""
    tokens = token_of_each(given.processor, generator.VALUES, "recall")
    prepare = adapter_for(given.model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=given.seed * 1_000_003 + part):
            prepared = prepare(given.model, given.processor, one.text)
            units = tuple(word.positions for word in prepared.words)
            yield Known(Request(prepared, target=tokens[one.answer]), units, (one.source,))


def embedded() -> tuple[Any, Any]:
    """The decoder that ships."""
    from attnx.tasks.recall.checkpoint import load_demo

    return load_demo()


RECALL = Suite(
    name="recall",
    title="the value that a key is bound to",
    right="the value behind the first mention of the key that is asked: the only place where the answer stands",
    source="generated texts, and the embedded decoder",
    measure=by_rank,
    questions=questions,
    embedded=embedded,
    heads=("ForCausalLM", "LMHeadModel"),
    rows=60,
)
