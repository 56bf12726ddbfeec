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
    """Replace words of an explained text, explain it again, and compare both.

    The changed text is explained with the settings of `explanation` and for the same target, so that what supports a
    target before and after is comparable, also where the model now predicts another.

    Args:
        model: the explained model.
        tokenizer: its tokenizer.
        explanation: of a text; of an encoder–decoder words of the source and of the decoder prefix may be changed.
        changes: what replaces each word, such as `{3: "dull"}`. A word is named by its index in `explanation.words`, or
            by its text where that occurs once; several consecutive words are one key. `""` removes a word.
        options: options of `explain` that differ from those of `explanation` (`target=None`: the new prediction).

    Returns:
        Both explanations side by side.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> e = explain(model, tokenizer, "the key to the cabinets")
        >>> both = counterfactual(model, tokenizer, e, {"key": "keys"})
        >>> [explanation.prediction.label for explanation in both.explanations]
        ['singular', 'singular']
    """
    assert changes is not None
    model, tokenizer = model_and_processor(model, tokenizer)
    if not isinstance(explanation, Explanation) or explanation.text is None:
        raise InputError("counterfactual needs the explanation of a text, not of token ids or of an image")
    replacements = _replacements(explanation, changes)
    model = unwrap_model(model)
    settings: dict[str, Any] = settings_of(explanation, references="references" not in options)
    adapter = adapter_for(model, settings["module"])
    source, prefix = _source_and_prefix(explanation, explanation.text)
    before = _prepared(model, tokenizer, source, {**settings, **prefix})
    if [position.token for position in before.positions] != list(explanation.tokens):
        raise InputError(
            "this model and tokenizer read the text differently from how it was explained (another tokenizer, a chat, "
            "or a target_text of token ids); explain the changed text yourself and use attnx.side_by_side([e, changed])"
        )
    text, prefix = _source_and_prefix(explanation, _replaced(explanation.text, replacements))
    prediction = explanation.prediction
    if prediction is not None and prediction.kind != "value":
        settings["target"] = prediction.named
    settings |= prefix | dict(options)
    extractive = prediction is not None and prediction.span is not None  # explained where the answer is
    if settings["position"] is None and not (
        extractive or adapter.explained(model, tokenizer, before) == explanation.position
    ):
        after = _prepared(model, tokenizer, text, settings)
        settings["position"] = _moved_position(explanation, replacements, after)
    changed = explain(model, tokenizer, text, **settings)
    default = {name: scores for name, scores in changed.attributions.items() if name == explanation.methods[0]}
    changed = replace(changed, attributions={**default, **changed.attributions})
    both = (explanation, changed)
    return SideBySide(both, TITLES, aligned(both, replacements), replacements)


def _replacements(explanation: Explanation, changes: Mapping[int | str, str]) -> tuple[Change, ...]:
    """The characters that each change replaces."""
    if not isinstance(changes, Mapping) or not changes:
        raise ArgumentError('changes must be a dictionary of words and what replaces them: {3: "dull"}')
    replacements = []
    for first, last, text in _word_ranges(explanation, changes):
        start, end = (extent_of(explanation, explanation.words[index]) for index in (first, last))
        if start is None or end is None or start.segment != end.segment:
            raise InputError(
                "the tokenizer reports no offsets, so words cannot be found in the text; use a fast tokenizer"
            )
        replacements += _word_by_word(explanation, first, last, text) or [
            _change(explanation.text, start.segment, start.start, end.end, text)
        ]
    replacements.sort(key=lambda change: (change.segment, change.start))
    for change, following in pairwise(replacements):
        if change.segment == following.segment and following.start < change.end:
            raise ChoiceError("two changes overlap in one word; give one for it")
    return tuple(replacements)


def _word_ranges(explanation: Explanation, changes: Mapping[int | str, str]) -> list[tuple[int, int, str]]:
    """The first and last word of each change, and what replaces them; adjacent removals become one."""
    ranges = []
    for word, text in changes.items():
        if not isinstance(text, str):
            raise ArgumentError(f"word {word!r} must be replaced by a text, found {text!r}")
        ranges.append((*_named_words(explanation, word), text))
    result: list[tuple[int, int, str]] = []
    for first, last, text in sorted(ranges):
        before = result[-1] if result else None
        segments = {explanation.words[index].segment for index in (first, before[1] if before else first)}
        if before and not before[2] and not text and first == before[1] + 1 and len(segments) == 1:
            result[-1] = (before[0], last, "")
        else:
            result.append((first, last, text))
    return result


def _replaced(text: str | tuple[str, str], changes: tuple[Change, ...]) -> Any:
    """The changed text, or both of a pair."""
    texts = [text] if isinstance(text, str) else list(text)
    for change in reversed(changes):
        whole = texts[change.segment]
        texts[change.segment] = whole[: change.start] + change.text + whole[change.end :]
    return texts[0] if isinstance(text, str) else (texts[0], texts[1])


def _source_and_prefix(explanation: Explanation, text: Any) -> tuple[Any, dict[str, Any]]:
    """The text for `explain`; of an encoder–decoder the source, and the decoder prefix as an option."""
    if OUTPUT not in explanation.sequences:
        return text, {}
    source, output = text
    return source, {"target_text": output or None}


def _prepared(model: nn.Module, tokenizer: Any, text: Any, settings: Mapping[str, Any]) -> PreparedInput:
    options = {name: settings[name] for name in ("truncate", "target_text") if name in settings}
    prepared = adapter_for(model, settings["module"]).prepare(model, tokenizer, text, **options)
    token = settings["prepend_token"]
    return prepared if token is None else with_prepended_token(model, tokenizer, prepared, token)


def _word_by_word(explanation: Explanation, first: int, last: int, new: str) -> list[Change]:
    """A change for each word that differs, where the same number of words with the same separators replaces several."""
    spans = [extent_of(explanation, word) for word in explanation.words[first : last + 1]]
    inner = word_spans(new)
    if len(spans) < 2 or len(inner) != len(spans):
        return []
    changes, end, stop = [], None, 0
    for span, (new_start, new_end) in zip(spans, inner, strict=True):
        if span is None or explanation.text is None:
            return []
        whole = explanation.text if isinstance(explanation.text, str) else explanation.text[span.segment]
        if (end is None and new_start) or (end is not None and whole[end : span.start] != new[stop:new_start]):
            return []
        if whole[span.start : span.end] != new[new_start:new_end]:
            changes.append(Change(span.start, span.end, new[new_start:new_end], span.segment))
        end, stop = span.end, new_end
    return changes if stop == len(new) else []


def _change(text: Any, segment: int, start: int, end: int, new: str) -> Change:
    """A removed word takes a space with it: of two the second, before a full stop the one in front."""
    whole = text if isinstance(text, str) else text[segment]
    before, after = whole[:start][-1:], whole[end : end + 1]
    if new or before not in ("", " "):
        return Change(start, end, new, segment)
    if after == " ":
        return Change(start, end + 1, new, segment)
    return Change(start - (before == " " and not after.isalnum()), end, new, segment)


def _named_words(explanation: Explanation, name: int | str) -> tuple[int, int]:
    """The first and the last word that a key names."""
    words = explanation.words
    if not isinstance(name, str):
        if isinstance(name, bool) or not isinstance(name, int) or not 0 <= name < len(words):
            raise ChoiceError(f"word {name!r} was requested, but the text has {len(words)}: {_listed(explanation)}")
        return name, name
    ranges = _occurrences(explanation, name)
    if len(ranges) == 1:
        return ranges[0]
    if ranges:
        indices = ", ".join(str(first) for first, _ in ranges)
        raise ChoiceError(f"{name!r} occurs {len(ranges)} times in the text, as word {indices}: name it by its number")
    size = len(name.split())
    several = f" (of {size} words in a row)" if size > 1 else ""
    raise ChoiceError(f"{name!r} is no word of the text{several}; its words are {_listed(explanation)}")


def _occurrences(explanation: Explanation, name: str) -> list[tuple[int, int]]:
    """Every first and last word between which the text is `name`."""
    spans = [extent_of(explanation, word) for word in explanation.words]
    texts = (explanation.text,) if isinstance(explanation.text, str) else explanation.text or ()
    ranges = []
    for first, start in enumerate(spans):
        for last, end in enumerate(spans[first:], start=first):
            if start is None or end is None or end.segment != start.segment or end.end - start.start > len(name):
                break
            if texts[start.segment][start.start : end.end] == name:
                ranges.append((first, last))
    return ranges


def _listed(explanation: Explanation, most: int = 12) -> str:
    names = [f"{word.index} {word.text!r}" for word in explanation.words[:most]]
    return ", ".join(names) + (", …" if len(explanation.words) > most else "")


def _moved_position(explanation: Explanation, changes: tuple[Change, ...], after: PreparedInput) -> int:
    """The explained position in the changed text, counted from the end where it is after all changes."""
    index, position = explanation.position, explanation.positions[explanation.position]
    from_end = len(after.positions) - (len(explanation.positions) - index)
    if position.start is None and after.is_encoder_decoder:  # the start of the output, or a language token
        return index - explanation.sequences[SOURCE] + after.encoder_length
    if position.start is None:  # another special token
        return index if index == 0 else from_end
    if (position.segment, position.end or 0) <= min((change.segment, change.start) for change in changes):
        return index
    if (position.segment, position.start) >= max((change.segment, change.end) for change in changes):
        return from_end
    raise ChoiceError(
        f"the explained position {index} ({position.token!r}) is in or between the changed words; name the one to "
        "explain in the changed text: position=…"
    )
