"""`alignment(explanation)` and `align(model, tokenizer, sources, targets)`: which source word a written word is from.

Words are what stands between spaces, as in files of links. A single level of cross-attention is the better aligner than
the whole chain: the chain says how much came from source and output at all, and mixes neighbours on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from attnx.agreement.links import Choice, Gold
from attnx.arguments import checked
from attnx.attention.naming import CROSS, levels_of
from attnx.comparison.two_streams import NO_OFFSETS, TwoStreams, WhichRow
from attnx.errors import ChoiceError, InputError
from attnx.explaining.explain import explain
from attnx.explaining.generation import EACH, explain_generation
from attnx.methods.raw import RAW
from attnx.references.registry import REFERENCES
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.results.word_alignment import Alignment
from attnx.running.batches import bar
from attnx.running.given_model import model_and_processor, takes_pipelines

NEW_TOKENS = 128
"""The most that is written of a sentence."""


@checked
def alignment(
    explanation: Explanation | GenerationExplanation | Sequence[Explanation | GenerationExplanation],
    *,
    method: str | None = None,
    layer: int | str | None = None,
    choice: Choice = "argmax",
    row: WhichRow = "predicts",
) -> Alignment:
    """Which source word each written word is from, in an explanation of an encoder–decoder or in several.

    It comes from `explain(model, tokenizer, source, target_text=…, methods="raw", maps=True)`, or from
    `explain_generation`, for what the model wrote itself. `method` is raw attention unless you choose, and `layer` the
    last level of cross-attention but one of those that are there; of a generation a reference will do as well, and is
    taken where it is shown first, as the value path is by default.
    `choice` is "argmax", the source word with the highest score, or "intersection": only what is the highest for the
    source word, too. The `row` of a written word is that of the position that "predicts" it, or of the one that
    "reads" it.

    >>> from attnx.tasks.dates.checkpoint import load_demo
    >>> model, tokenizer = load_demo()
    >>> e = explain(model, tokenizer, "the third of march 1998", target_text="1998 03 03", methods="raw", maps=True)
    >>> alignment(e).pairs()[0]
    ('1998', '1998')
    """
    several = [explanation] if isinstance(explanation, Explanation | GenerationExplanation) else list(explanation)
    if not several or not all(isinstance(one, Explanation | GenerationExplanation) for one in several):
        raise InputError("an alignment is of an explanation of an encoder–decoder, or of a list of them")
    found = [TwoStreams.of(one, method, layer, row) for one in several]
    told = dict.fromkeys(f"{one.method} at {one.layer or 'the model'}" for one in found)
    if len(told) > 1:
        raise InputError(f"the explanations are not of one method and level: {', '.join(told)}; say which")
    return Alignment.choose(
        [([word for word, _ in one.source], [word for word, _ in one.output]) for one in found],
        [one.by_word for one in found],
        choice,
        method=found[0].method,
        layer=found[0].layer,
        row=row,
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        provenance=several[0].provenance,
    )


@takes_pipelines("sources")
@checked
def align(
    model: Any,
    tokenizer: Any = None,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    method: str = RAW.name,
    layer: int | str | None = None,
    choice: Choice = "argmax",
    row: WhichRow = "predicts",
    gold: str | PathLike[str] | Sequence[Gold] | None = None,
    max_new_tokens: int = NEW_TOKENS,
    progress: bool = True,
) -> Alignment:
    """Align each source with its target, as the model sees them when it is given both.

    Without `targets` the model writes them, greedily, at most `max_new_tokens` each. What is asked is as in
    `alignment`; `method` may be a reference. With a `gold`, a file of links or what `read_links` read of one, the
    result has the alignment error rate.

    >>> from attnx.tasks.dates.checkpoint import load_demo
    >>> model, tokenizer = load_demo()
    >>> align(model, tokenizer, ["the third of march 1998"], ["1998 03 03"], progress=False).pairs()[0]
    ('1998', '1998')
    """
    assert sources is not None
    model, tokenizer = model_and_processor(model, tokenizer)
    if targets is not None and len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources and {len(targets)} targets: give a target for each source")
    if not sources:
        raise InputError("nothing to align: give at least one source with its target")
    if gold is not None and targets is None:
        raise InputError("a gold links words of targets that people wrote; give the targets, too")
    given: Sequence[str | None] = [None] * len(sources) if targets is None else targets
    pairs = list(zip(sources, given, strict=True))
    for number, pair in enumerate(pairs, start=1):
        if not all(one.strip() for one in pair if one is not None):
            raise InputError(f"pair {number} is empty on one side; leave both lines out, and that of the gold")
    measured = method in REFERENCES
    if measured and layer is not None:
        raise ChoiceError(f"{method} is measured on the whole model; leave layer out")
    found: list[Explanation | GenerationExplanation] = []
    with bar("align", len(pairs), progress, " pairs") as shown:
        for source, target in pairs:
            one: Explanation | GenerationExplanation
            if target is None or measured:
                asked: dict[str, Any] = {"progress": False}
                asked |= {"methods": RAW.name, "references": method} if measured else {"methods": method}
                asked |= {"max_new_tokens": max_new_tokens} if target is None else {"continuation": target}
                one = explain_generation(model, tokenizer, source, layer=None if measured else layer or EACH, **asked)
            else:
                one = explain(model, tokenizer, source, target_text=target, methods=method, layer=layer, maps=True)
            if not one.streams:
                raise InputError(f"{type(model).__name__} is no encoder–decoder: it has no source to align with")
            layer = _but_one(one) if layer is None and not measured else layer
            found.append(one)
            shown.update(1)
    aligned = alignment(found, method=method, layer=layer, choice=choice, row=row)
    if gold is None:
        return aligned
    if NO_OFFSETS in aligned.notes:
        raise InputError(f"a gold links words, and {NO_OFFSETS}; load a fast tokenizer")
    return aligned.against(gold)


def _but_one(explanation: Explanation | GenerationExplanation) -> int:
    """The last level of cross-attention but one, where all levels were explained; further pairs need no other."""
    return levels_of(explanation.provenance["settings"]["levels"], CROSS)[-2:][0]
