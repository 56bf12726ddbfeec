"""A question about a picture: one patch shows the colour that is asked for, and five others show another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.errors import ChoiceError
from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.inputs.picture_and_text import reads_both
from attnx.tasks.picture_question import generator
from attnx.tasks.picture_question.checkpoint import IMAGE, load_demo
from attnx.truth.answers import token_of_each
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Pictures without end, each asked for its colour, behind the words that lead up to it."""
    model, processor = given.model, given.processor
    if not reads_both(model):
        raise ChoiceError(f"the suite 'question' asks a decoder of pictures and text; {type(model).__name__} is none")
    tokens = token_of_each(processor.tokenizer, tuple(generator.COLOURS), "question")
    prepare = adapter_for(model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=1 + given.seed * 1_000_003 + part):
            *before, colour = one.answer.split()
            text = " ".join((IMAGE, one.question, *before))
            prepared = prepare(model, processor, {"image": one.image, "text": text})
            patches = prepared.positions[prepared.text_length :].named
            right = next(place for place, patch in enumerate(patches) if patch.token == one.token)
            image_tokens = {
                str(one.box): one.index for one in prepared.positions[: prepared.text_length] if one.box is not None
            }
            # An image token and the patch that it reads are one; the words of the question only say where to look.
            units = tuple((patch.index, image_tokens[str(patch.box)]) for patch in patches)
            yield Known(Request(prepared, target=tokens[colour]), units, (right,))


def _embedded() -> tuple[Any, Any]:
    return load_demo()


QUESTION = Suite(
    name="question",
    title="the patch that shows the colour that is asked for",
    right="the patch of the square that the question names: another colour there makes another answer",
    source="generated pictures with questions, and the embedded image–text decoder",
    measure=by_rank,
    questions=questions,
    unit="patch",
    embedded=_embedded,
    by_name=True,
    heads=("ForConditionalGeneration",),
    rows=60,
)
