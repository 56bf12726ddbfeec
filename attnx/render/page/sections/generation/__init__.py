"""Text that was written: each of its tokens, and what it drew from in the prompt and in what was written before."""

from __future__ import annotations

from typing import Any

from attnx.render.generation import blocks
from attnx.render.page.plain import PlainTable
from attnx.render.page.reduction import ROW_BYTES, packed, spread
from attnx.render.page.sections.text.picture import picture
from attnx.render.page.sections.text.sounding import sounding
from attnx.render.page.shown import Shown
from attnx.results.generation import GenerationExplanation
from attnx.results.remarks import line
from attnx.results.result import Array

_TITLE = 80
_BYTES_A_NUMBER = 4 * 4 / 3
_ALTERNATIVES = 5
"""Runners-up that are shown of each token."""


def data(shown: Shown) -> dict[str, Any] | None:
    """The texts with their tokens, and for each name layer × generated × source in single precision."""
    written = [one for one in shown.results if isinstance(one, GenerationExplanation)]
    return {"texts": [_text(one, len(written), player=shown.player) for one in written]} if written else None


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """The tables of the terminal."""
    tables = [table for text in page["generation"]["texts"] for table in text["tables"]]
    return [PlainTable(one["heading"], one["rows"], one["lead"], one["foot"]) for one in tables]


def _text(written: GenerationExplanation, texts: int, *, player: bool = False) -> dict[str, Any]:
    kept, layers = _layers(written, texts)
    left_out = len(written.layers or ()) - len(kept)
    notes = [f"{len(kept)} of {len(kept) + left_out} layers are in this page"] if left_out > 0 else []
    return {
        "title": _title(written),
        "picture": picture(written, texts) or sounding(written.step(0), player=player),
        "prompt": written.prompt_length,
        "front": dict(zip(("name", "length"), written.front, strict=True)),
        "tokens": _tokens(written),
        "spans": [[one.name, list(one.positions)] for one in written.spans],
        "split": [name for name in written.names if written.step(0).split_by_residual(name)],
        "parts": [list(one) for one in written.parts],
        "answers": [_answer(written, step) for step in range(len(written))],
        "names": list(written.names),
        "measured": list(written.references),
        "signed": sorted(written.signed),
        "digits": dict(written.digits),
        "layers": layers,
        "scores": {name: packed(_scores(written, name, kept), "<f4") for name in written.names},
        "against": {name: packed(scores, "<f4") for name, scores in written.against.items()},
        "rivals": [one.against for one in written.contrasts],
        "remarks": _remarks(written),
        "stripes": {name: [one.sentence for one in written.stripe(name)] for name in written.names},
        "notes": [*written.notes, *notes],
        "tables": [
            {
                "heading": one.heading,
                "rows": [list(line) for line in one.lines],
                "lead": list(one.lead),
                "foot": list(one.foot),
            }
            for one in blocks(written)
        ],
    }


def _layers(written: GenerationExplanation, texts: int) -> tuple[list[int], list[int]]:
    """Which of the layers there is room for, by their place and by their number."""
    if written.layers is None:
        return [], [written.layer]
    room = ROW_BYTES / texts / (len(written.methods) * written[written.methods[0]].size * _BYTES_A_NUMBER)
    kept = spread(len(written.layers), min(len(written.layers), max(int(room), 2)))
    return kept, [written.layers[place] for place in kept]


def _scores(written: GenerationExplanation, name: str, kept: list[int]) -> Array:
    """layer × generated × source; a reference has no layers, and stands as one."""
    if kept and name in written.by_layer:
        return written.by_layer[name][kept]
    return written[name][None]


def _title(written: GenerationExplanation) -> str:
    whole = " ".join((written.text or " ".join(written.tokens)).split())
    return whole if len(whole) <= _TITLE else whole[: _TITLE - 1] + "…"


def _tokens(written: GenerationExplanation) -> list[dict[str, Any]]:
    """Each token as it stands in the text, with the white space before it; of sound, what is padding behind it."""
    heard = written.front[1] if any(one.time is not None for one in written.positions) else 0
    found: list[dict[str, Any]] = []
    end = 0
    for one in written.positions:
        if written.text is None or one.start is None or one.end is None or one.special:
            gap, end = _before_special(written.text, end, one.token)
            found.append({"text": one.token, "gap": gap if found else "", "special": one.special})
            if one.special and one.index < heard:
                found[-1]["padding"] = True
            continue
        piece = written.text[max(end, one.start) : one.end]
        inked = piece.lstrip()
        space = piece[: len(piece) - len(inked)] if inked else ""
        # A token that is white space alone, or some bytes of a character that another shows, is named.
        named = {"text": inked or piece or one.token, "special": not (inked or piece)}
        found.append({"gap": written.text[end : one.start] + space, **named})
        end = max(end, one.end)
    return found


def _before_special(text: str | None, end: int, token: str) -> tuple[str, int]:
    """What stands before a special token, and where it ends: a template writes it into the text, others do not."""
    if text is None:
        return " ", end
    start = text.find(token, end)
    return (text[end:start], start + len(token)) if start >= 0 and not text[end:start].strip() else (" ", end)


def _remarks(written: GenerationExplanation) -> dict[str, list[str]]:
    """Name → what is to be said of each token's row."""
    steps = [written.step(number) for number in range(len(written))]
    return {name: [line(step.remarks(name)) for step in steps] for name in written.names}


def _answer(written: GenerationExplanation, step: int) -> dict[str, Any]:
    one = written.predictions[step]
    others = [[label, share] for label, share in written.alternatives(step)][:_ALTERNATIVES]
    told = ("label", "probability", "predicted", "certainty")
    return {**{name: getattr(one, name) for name in told}, "others": others}
