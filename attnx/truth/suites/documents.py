"""Documents: eight pairs of recall in four documents of two; the one with the asked key is the one that mattered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.inputs.spans import with_spans
from attnx.tasks.recall import generator
from attnx.truth.answers import token_of_each
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial
from attnx.truth.suites.recall import embedded

PAIRS, IN_ONE = 8, 2
"""Pairs of a text, and of a document."""
_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Texts without end."""
    tokens = token_of_each(given.processor, generator.VALUES, "recall")
    prepare = adapter_for(given.model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=given.seed * 1_000_003 + part, pairs=PAIRS):
            prepared = with_spans(prepare(given.model, given.processor, one.text), documents(one.text))
            units = tuple(span.positions for span in prepared.spans)
            yield Known(Request(prepared, target=tokens[one.answer]), units, (one.source // (2 * IN_ONE),))


def documents(text: str) -> list[str]:
    """The parts of a text of recall, without the key that is asked at its end.

    >>> documents("k1 v1 k2 v2 k3 v3 k4 v4 k2")
    ['k1 v1 k2 v2', 'k3 v3 k4 v4']
    """
    words = text.split()[:-1]
    return [" ".join(words[start : start + 2 * IN_ONE]) for start in range(0, len(words), 2 * IN_ONE)]


DOCUMENTS = Suite(
    name="documents",
    title="the document that the answer stands in",
    right="the document with the key that is asked and its value: the answer stands in no other",
    source="generated texts of four documents, and the embedded decoder",
    measure=by_rank,
    questions=questions,
    unit="span",
    embedded=embedded,
    by_name=True,
    heads=("ForCausalLM", "LMHeadModel"),
    rows=60,
)
