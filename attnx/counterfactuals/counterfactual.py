"""Counterfactuals: a text with some words changed, explained as before, and both side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Unpack

from torch import nn

from attnx.adapters import OUTPUT, SOURCE, PreparedInput, adapter_for, with_prepended_token, word_spans
from attnx.arguments import checked
from attnx.counterfactuals.side_by_side import SideBySide
from attnx.errors import ArgumentError, ChoiceError, InputError
from attnx.hooks import unwrap_model
from attnx.pipeline import Options, model_and_processor, settings_of, takes_pipelines
from attnx.pipeline.explain import explain
from attnx.results import Change, Explanation, aligned, extent_of

TITLES = ("before", "after")


@takes_pipelines("explanation", "changes")
@checked
def counterfactual(
    model: Any,
    tokenizer: Any = None,
    explanation: Explanation | None = None,
    changes: Mapping[int | str, str] | None = None,
    **options: Unpack[Options],
) -> SideBySide:
    """What becomes of an explanation when words of its text are replaced: `counterfactual(model, tokenizer, e, {3:
    "dull"})`.

    A word is told by its index in `e.words`, or as it stands in the text, if it stands there once; several words in a
    row are one key. What replaces it may be any text, and "" takes it away. The changed text is explained with the
    settings of `e`, and for the same target: what speaks for an answer before and after can be compared, also where
    the model now answers otherwise. `options` of `explain` say otherwise (`target=None`: its new answer). Of an
    encoder–decoder words of the source may be changed, and of what it has written so far.

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the key to the cabinets")
    >>> both = counterfactual(model, tokenizer, e, {"key": "keys"})
    >>> [one.prediction.label for one in both.explanations]
    ['singular', 'singular']
    """
    assert changes is not None
    model, tokenizer = model_and_processor(model, tokenizer)
    if not isinstance(explanation, Explanation) or explanation.text is None:
        raise InputError("edit changes words of a text: give an explanation of one, not of token ids or of an image")
    spliced = changes_of(explanation, changes)
    model = unwrap_model(model)
    given: dict[str, Any] = settings_of(explanation, references="references" not in options)
    adapter = adapter_for(model, given["module"])
    source, written = _read_as(explanation, explanation.text)
    before = _prepared(model, tokenizer, source, {**given, **written})
    if [position.token for position in before.positions] != list(explanation.tokens):
        raise InputError(
            "this model and tokenizer read the text otherwise than it was explained (another tokenizer, a chat, or a "
            "target_text of token ids); explain the changed text yourself, and use attnx.side_by_side([e, changed])"
        )
    text, written = _read_as(explanation, changed_text(explanation.text, spliced))
    if explanation.prediction is not None and explanation.prediction.kind != "value":
        given["target"] = explanation.prediction.named
    given |= written | dict(options)
    follows = explanation.prediction is not None and explanation.prediction.span is not None  # where the answer stands
    if (
        given["position"] is None
        and not follows
        and adapter.explained(model, tokenizer, before) != explanation.position
    ):
        given["position"] = _moved(explanation, spliced, _prepared(model, tokenizer, text, given))
    changed = replace(explain(model, tokenizer, text, **given), first=explanation.first)
    both = (explanation, changed)
    return SideBySide(both, TITLES, aligned(both, spliced), spliced)


def changes_of(explanation: Explanation, changes: Mapping[int | str, str]) -> tuple[Change, ...]:
    """The characters that each change replaces; a word that is not there, or not once, is an error."""
    if not isinstance(changes, Mapping) or not changes:
        raise ArgumentError('changes are a dictionary of words and what replaces them: {3: "dull"}')
    found = []
    for first, last, text in _stretches(explanation, changes):
        start, end = (extent_of(explanation, explanation.words[index]) for index in (first, last))
        if start is None or end is None or start.segment != end.segment:
            raise InputError(
                "the tokenizer tells no offsets, so words cannot be found in the text; use a fast tokenizer"
            )
        found += _spliced(explanation, first, last, text) or [
            _change(explanation.text, start.segment, start.start, end.end, text)
        ]
    ordered = sorted(found, key=lambda one: (one.segment, one.start))
    for change, next_ in pairwise(ordered):
        if change.segment == next_.segment and next_.start < change.end:
            raise ChoiceError("two changes meet in one word; give one for it")
    return tuple(ordered)


def _stretches(explanation: Explanation, changes: Mapping[int | str, str]) -> list[tuple[int, int, str]]:
    """The first and last word of each change, and what replaces them; neighbours that are taken away are one."""
    asked = []
    for word, text in changes.items():
        if not isinstance(text, str):
            raise ArgumentError(f"word {word!r} is replaced by a text, found {text!r}")
        asked.append((*_words(explanation, word), text))
    result: list[tuple[int, int, str]] = []
    for first, last, text in sorted(asked):
        before = result[-1] if result else None
        segments = {explanation.words[index].segment for index in (first, before[1] if before else first)}
        if before and not before[2] and not text and first == before[1] + 1 and len(segments) == 1:
            result[-1] = (before[0], last, "")
        else:
            result.append((first, last, text))
    return result


def changed_text(text: str | tuple[str, str], changes: tuple[Change, ...]) -> Any:
    """The text with the changes in it; of a pair, both."""
    texts = [text] if isinstance(text, str) else list(text)
    for change in reversed(changes):
        whole = texts[change.segment]
        texts[change.segment] = whole[: change.start] + change.text + whole[change.end :]
    return texts[0] if isinstance(text, str) else (texts[0], texts[1])


def _read_as(explanation: Explanation, text: Any) -> tuple[Any, dict[str, Any]]:
    """What `explain` is given for a text of this explanation: of an encoder–decoder the source, and what is written."""
    if OUTPUT not in explanation.sequences:
        return text, {}
    source, output = text
    return source, {"target_text": output or None}


def _prepared(model: nn.Module, tokenizer: Any, text: Any, given: Mapping[str, Any]) -> PreparedInput:
    """The text as it is read with these settings."""
    how = {name: given[name] for name in ("truncate", "target_text") if name in given}
    prepared = adapter_for(model, given["module"]).prepare(model, tokenizer, text, **how)
    first = given["prepend_token"]
    return prepared if first is None else with_prepended_token(model, tokenizer, prepared, first)


def _spliced(explanation: Explanation, first: int, last: int, new: str) -> list[Change]:
    """A change for each word that differs, where as many words replace several, with the same between them."""
    spans = [extent_of(explanation, word) for word in explanation.words[first : last + 1]]
    inner = word_spans(new)
    if len(spans) < 2 or len(inner) != len(spans):
        return []
    changes, end, stop = [], None, 0
    for span, (begin, behind) in zip(spans, inner, strict=True):
        if span is None or explanation.text is None:
            return []
        whole = explanation.text if isinstance(explanation.text, str) else explanation.text[span.segment]
        if (end is None and begin) or (end is not None and whole[end : span.start] != new[stop:begin]):
            return []
        if whole[span.start : span.end] != new[begin:behind]:
            changes.append(Change(span.start, span.end, new[begin:behind], span.segment))
        end, stop = span.end, behind
    return changes if stop == len(new) else []


def _change(text: Any, segment: int, start: int, end: int, new: str) -> Change:
    """A word that is taken away takes a space with it: of two the second, before a full stop the one in front."""
    whole = text if isinstance(text, str) else text[segment]
    before, after = whole[:start][-1:], whole[end : end + 1]
    if new or before not in ("", " "):
        return Change(start, end, new, segment)
    if after == " ":
        return Change(start, end + 1, new, segment)
    return Change(start - (before == " " and not after.isalnum()), end, new, segment)


def _words(explanation: Explanation, index: int | str) -> tuple[int, int]:
    """The first and the last word that are meant."""
    words = explanation.words
    if isinstance(index, str):
        wanted = index.split()
        size = max(len(wanted), 1)
        places = _places(explanation, index)
        if len(places) == 1:
            return places[0]
        if places:
            name = ", ".join(str(first) for first, _ in places)
            raise ChoiceError(f"{index!r} stands {len(places)} times in the text, as word {name}: say which by number")
        near = f" (of {size} words in a row)" if size > 1 else ""
        raise ChoiceError(f"{index!r} is no word of the text{near}; its words are {_listed(explanation)}")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(words):
        raise ChoiceError(f"word {index!r} asked, the text has {len(words)}: {_listed(explanation)}")
    return index, index


def _places(explanation: Explanation, name: str) -> list[tuple[int, int]]:
    """Every first and last word whose characters are the asked ones."""
    spans = [extent_of(explanation, word) for word in explanation.words]
    texts = (explanation.text,) if isinstance(explanation.text, str) else explanation.text or ()
    result = []
    for first, start in enumerate(spans):
        for last, end in enumerate(spans[first:], start=first):
            if start is None or end is None or end.segment != start.segment or end.end - start.start > len(name):
                break
            if texts[start.segment][start.start : end.end] == name:
                result.append((first, last))
    return result


def _listed(explanation: Explanation, most: int = 12) -> str:
    names = [f"{word.index} {word.text!r}" for word in explanation.words[:most]]
    return ", ".join(names) + (", …" if len(explanation.words) > most else "")


def _moved(explanation: Explanation, changes: tuple[Change, ...], after: PreparedInput) -> int:
    """Where the explained position is in the changed text: counted from the end where it stands behind all changes."""
    place, position = explanation.position, explanation.positions[explanation.position]
    behind = len(explanation.positions) - place
    first = min((change.segment, change.start) for change in changes)
    last = max((change.segment, change.end) for change in changes)
    if position.start is None and after.is_encoder_decoder:  # the start of the output, or a language behind it
        return place - explanation.sequences[SOURCE] + after.encoder_length
    if position.start is None:  # a special token: at the beginning, or counted from the end
        return place if place == 0 else len(after.positions) - behind
    if (position.segment, position.end or 0) <= first:
        return place
    if (position.segment, position.start) >= last:
        return len(after.positions) - behind
    raise ChoiceError(
        f"the explained position {place} ({position.token!r}) stands in or between the changed words; say which to "
        "explain in the changed text: position=…"
    )
