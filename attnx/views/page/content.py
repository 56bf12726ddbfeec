"""The data of a page: what its scripts read of each explanation, within a size limit; its tables, images and audio."""

from __future__ import annotations

import wave
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from attnx.adapters import Audio, Position
from attnx.attention import layer_name
from attnx.errors import InputError
from attnx.results import (
    Explanation,
    OfExplanations,
    Result,
    compared_over,
    extent_of,
    layered,
    rank_correlation,
    unlayered,
)
from attnx.views.audio import banded, envelope, spectrum, transcribed_words
from attnx.views.table import TextBlock

if TYPE_CHECKING:
    from attnx.generation import GenerationExplanation

Array = np.ndarray[Any, np.dtype[Any]]

ROW_BYTES = 1_400_000
"""For the rows of all results in a page, which with the matrices stays below 3 MB."""
MAP_BYTES = 1_200_000
FEWEST_EDGES = 4
"""A matrix with fewer weights per row would mislead and is left out."""
_BYTES_A_WEIGHT, _BYTES_WITH_PLACE = 4 * 4 / 3, 6 * 4 / 3
"""Base64 makes four bytes of three."""


def kept_layers(layers: int, bytes_a_layer: float, results: int) -> list[int]:
    """Indices of the layers to show, evenly spread, the last always among them."""
    room = int(ROW_BYTES / results / bytes_a_layer)
    return spread(layers, min(layers, max(room, 2)))


def kept_edges(rows: int, length: int, room: float) -> int:
    """How many weights of each row fit into so many bytes: all, the strongest few, or none."""
    if rows * length * _BYTES_A_WEIGHT <= room:
        return length
    count = int(room / rows / _BYTES_WITH_PLACE)
    return count if count >= FEWEST_EDGES else 0


def kept_layers_and_edges(layers: int, rows: int, length: int, room: float) -> tuple[list[int], int]:
    """The same where layers may be left out as well: the fewest weights per row, in as many layers as fit."""
    edges = kept_edges(layers * rows, length, room)
    if edges:
        return list(range(layers)), edges
    fewest = min(FEWEST_EDGES, length)
    return spread(layers, int(room / (rows * fewest * _BYTES_WITH_PLACE))), fewest


def spread(layers: int, count: int) -> list[int]:
    """Indices of so many layers, evenly from the last to the first."""
    return sorted({round(index) for index in np.linspace(layers - 1, 0, count)})


def strongest(scores: Array, count: int) -> dict[str, str | None]:
    """The `count` largest in size of each row of layer × query × input, as base64 of float32 and of their indices."""
    if count == scores.shape[-1]:
        return {"values": packed(scores, "<f4"), "indices": None}
    indices = _largest(scores, count)
    return {"values": packed(np.take_along_axis(scores, indices, -1), "<f4"), "indices": packed(indices, "<u2")}


def share_of_strongest(scores: Array, count: int) -> float:
    """Their share of the whole, by size."""
    sizes = np.abs(scores)
    return float(np.take_along_axis(sizes, _largest(scores, count), -1).sum() / max(sizes.sum(), 1e-12))


def _largest(scores: Array, count: int) -> Array:
    """Indices of the largest in size, in the order of the input."""
    beyond = scores.shape[-1] - count
    return np.sort(np.argpartition(np.abs(scores), beyond, axis=-1)[..., beyond:], axis=-1)


def number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or np.isnan(value) else round(float(value), 4)


def packed(numbers: Array, kind: str) -> str:
    return b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode()


_TITLE = 80
_BYTES_A_NUMBER, _BYTES_A_PACKED = 12, 5.4


def content(explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    """What the page's scripts read of each explanation."""
    return [_result(explanation, len(explanations)) for explanation in explanations]


def _result(explanation: Explanation, results: int) -> dict[str, Any]:
    # The scripts draw rows by layer; a method without layers stands as one where there is no other.
    rows = layered(explanation) or explanation.methods[:1]
    heads = max((explanation[name].shape[1] for name in rows if explanation[name].ndim == 3), default=0)
    length, count = len(explanation.positions), len(explanation.layers) or 1
    kept = kept_layers(count, length * len(rows) * (_BYTES_A_NUMBER + heads * _BYTES_A_PACKED), results)
    layers = [(explanation.layers or (1,))[index] for index in kept]
    notes = list(explanation.notes)
    if len(kept) < count:
        notes.append(f"{len(kept)} of {count} layers are in this page: {', '.join(map(str, layers))}")
    maps = _maps(explanation, kept, results, notes)
    if explanation.image_size is not None and explanation.image is None:
        notes.append("the image is not in this page: files do not keep it; explain it again to see it")
    if explanation.seconds is not None and explanation.audio is None:
        notes.append("the audio is not in this page: files do not keep it; explain it again to see its waveform")
    return {
        "title": _title(explanation),
        "verdict": explanation._verdict(keywords=False),
        "explained": explanation.explained,
        "position": explanation.position,
        "positions": _positions(explanation),
        "words": _words(explanation),
        "layers": layers,
        "layer_names": _levels(explanation, layers),
        "first": explanation.methods[0],
        "method": next(iter(layered(explanation)), explanation.methods[0]),
        "relevance": {name: [_rounded(explanation.scores(name, layer)) for layer in layers] for name in rows},
        "heads": None if not heads else _heads(explanation, kept, heads),
        "maps": maps,
        "prediction": _prediction(explanation),
        "references": {name: explanation[name].tolist() for name in unlayered(explanation)},
        "causal": explanation.causal,
        "signed": sorted(name for name, scores in explanation.attributions.items() if scores.signed),
        "digits": {
            name: scores.precision for name, scores in explanation.attributions.items() if scores.precision is not None
        },
        "local": sorted(name for name, scores in explanation.attributions.items() if scores.single_layer),
        "notes": notes,
    }


def _levels(explanation: Explanation, layers: Sequence[int]) -> list[str] | None:
    """The names of the layers of an encoder–decoder."""
    kinds = explanation.provenance.get("settings", {}).get("layer_kinds", ())
    return [layer_name(kinds, layer) for layer in layers] if explanation.sequences and kinds else None


def _title(explanation: Explanation) -> str:
    if explanation.image_size is not None and explanation.text is None:
        return "image of {} × {} pixels".format(*explanation.image_size)
    if explanation.seconds is not None:
        transcription = " ".join(word.text for word in transcribed_words(explanation))
        return f"audio of {explanation.seconds:.2f} s{f': {transcription}' if transcription else ''}"
    whole = " ".join((explanation.title or " ".join(word.text for word in explanation.words)).split())
    return whole if len(whole) <= _TITLE else whole[: _TITLE - 1] + "…"


def _positions(explanation: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "token": position.token,
            "label": _label(position, explanation.texts),
            "special": position.special,
            "word": position.word,
        }
        | ({} if position.time is None else {"timed": True})
        for position in explanation.positions
    ]


def _label(position: Position, texts: Sequence[str]) -> str:
    """The slice of the text, which may be white space, or the tokenizer's name."""
    piece = position.piece(texts)
    return piece.strip() or piece or position.token


def _words(explanation: Explanation) -> list[dict[str, Any]]:
    """Each word with the text between it and the word before."""
    words: list[dict[str, Any]] = []
    time_segments = {(word.text, word.positions) for word in explanation.time_segments}
    segment, end = 0, 0
    for word in explanation.words:
        gap = " " if words else ""
        if word.segment != segment:
            segment, end, gap = word.segment, 0, "\n\n"
        span = extent_of(explanation, word)
        if span is not None:
            gap = gap if gap == "\n\n" else explanation.texts[word.segment][end : span.start]
            end = max(end, span.end)
        mark = {"punctuation": True} if word.is_punctuation else {}
        mark |= {"timed": True} if (word.text, word.positions) in time_segments else {}
        words.append({"text": word.text, "gap": gap, "positions": list(word.positions), **mark})
    return words


def _heads(explanation: Explanation, kept: list[int], heads: int) -> dict[str, Any]:
    each = {name: explanation[name][kept] for name in layered(explanation) if explanation[name].ndim == 3}
    return {"count": heads, "relevance": {name: packed(scores, "<f4") for name, scores in each.items()}}


def matrices_of(explanation: Explanation) -> dict[str, Array]:
    """Method → the rows of all positions, where they were kept."""
    each = {name: attribution.matrices for name, attribution in explanation.attributions.items()}
    return {name: matrices for name, matrices in each.items() if matrices is not None}


def _maps(explanation: Explanation, kept: list[int], results: int, notes: list[str]) -> dict[str, Any] | None:
    matrices = matrices_of(explanation)
    if not matrices:
        return None
    # Where every head was kept, a clicked row is their mean.
    maps = {name: (array.mean(1) if array.ndim == 4 else array)[kept] for name, array in matrices.items()}
    length = len(explanation.positions)
    edges = kept_edges(len(maps) * len(kept) * length, length, MAP_BYTES / results)
    if edges == 0:
        notes.append("the page has no room for the rows of all positions; give a page to fewer results")
        return None
    if edges < length:
        share = np.mean([share_of_strongest(scores, edges) for scores in maps.values()])
        notes.append(
            f"of each row but the explained one the {edges} strongest of {length} weights are in this page: "
            f"{share:.0%} of the whole"
        )
    return {"edges": edges, "relevance": {name: strongest(scores, edges) for name, scores in maps.items()}}


def _prediction(explanation: Explanation) -> dict[str, Any] | None:
    answer = explanation.prediction
    if answer is None:
        return None
    keys = ("kind", "noun", "predicted", "certainty", "label", "probability", "against")
    return {key: getattr(answer, key) for key in keys}


def _rounded(scores: Array) -> list[float]:
    """To 1e-9, the precision of flow and of ties."""
    return [float(score) for score in np.round(scores, 9) + 0.0]


R = TypeVar("R", bound=Result)


@dataclass(frozen=True, eq=False)
class Shown:
    """The results of one page, as its sections read them."""

    results: tuple[Result, ...]
    explanations: tuple[Explanation, ...]
    """Those among the results."""
    contents: list[dict[str, Any]]
    """The data of each explanation for all sections."""
    rest: tuple[Result, ...] = ()
    """Results without a section of their own."""
    content_only: bool = False
    """Whether the page opens without punctuation."""
    player: bool = False
    """Whether audio can be played."""

    @classmethod
    def of(
        cls, results: Any, kinds: tuple[type[Result], ...] = (), content_only: bool = False, player: bool = False
    ) -> Shown:
        """`kinds` are those with sections of their own."""
        several: Sequence[Any] = results if isinstance(results, (list, tuple)) else [results]
        if not several or not all(isinstance(item, Result) for item in several):
            name = ", ".join(dict.fromkeys(type(item).__name__ for item in several)) or "none"
            raise InputError(
                "a page shows explanations, a comparison, a head atlas, faithfulness, or any other results of attnx; "
                f"found {name}"
            )
        named = [pair for result in several for pair in _explanations(result)]
        explanations = tuple(explanation for _, explanation in named)
        contents = content(explanations)
        for data, (title, _) in zip(contents, named, strict=True):
            data["title"] = f"{title}: {data['title']}" if title else data["title"]
        rest = tuple(result for result in several if not isinstance(result, kinds))
        return cls(tuple(several), explanations, contents, rest, content_only, player)

    def only(self, kind: type[R]) -> R | None:
        """The one result of a kind, if any."""
        results = [result for result in self.results if isinstance(result, kind)]
        if len(results) > 1:
            raise InputError(f"a page shows explanations and one {kind.kind}, found {len(results)}: make several pages")
        return results[0] if results else None


def _explanations(result: Result) -> list[tuple[str, Explanation]]:
    """The explanations of a result, each with its title there."""
    if isinstance(result, OfExplanations):
        numbered = [f"text {number}" for number in range(1, len(result.explanations) + 1)]
        return list(zip(getattr(result, "titles", numbered), result.explanations, strict=True))
    return [("", result)] if isinstance(result, Explanation) else []


def correlation(explanation: Explanation, name: str, other: str, layer: int) -> float:
    """Spearman's of two methods at a layer, or of one with a reference; NaN where undefined."""
    first, second = explanation.attributions[name], explanation.attributions[other]
    array = rank_correlation(
        explanation.scores(name, layer),
        explanation.scores(other, layer),
        compared_over(explanation, name, other),
        first.precision,
        second.precision,
        both_signed=first.signed and second.signed,
    )
    return float(array)


LEVELS = 10


@dataclass(frozen=True)
class PlainTable:
    """Lines of cells, and notes around them."""

    template: ClassVar[str] = "templates/table.html.jinja"

    heading: str
    lines: Sequence[Sequence[str]] = ()
    lead: Sequence[str] = ()
    foot: Sequence[str] = ()


@dataclass(frozen=True)
class PlainWord:
    """A word, and the space before it."""

    text: str
    gap: str
    level: int
    """From 0 to 10, as a share of the strongest word."""
    score: str
    against: bool = False


@dataclass(frozen=True)
class PlainWords:
    """The prediction, and the words of the text."""

    template: ClassVar[str] = "templates/words.html.jinja"

    label: str
    probability: str
    target: str
    """The explained target where it is not the prediction alone."""
    headline: str
    verdict: str
    words: tuple[PlainWord, ...]
    notes: tuple[str, ...]


Plain: TypeAlias = PlainTable | PlainWords


def table_data(blocks: Iterable[TextBlock]) -> list[dict[str, Any]]:
    """The tables of a result for the page."""
    return [{name: value for name, value in asdict(block).items() if name != "bold"} for block in blocks]


def plain_tables(section: str) -> Callable[[dict[str, Any]], list[PlainTable]]:
    """The plain text of a section whose data holds `tables`: those that the terminal shows."""
    return lambda page: [PlainTable(**table) for table in page[section]["tables"]]


def cell(value: float | None) -> str:
    """A number in a table.

    >>> cell(0.256)
    '0.26'
    """
    return "–" if value is None else f"{value:.2f}"


LONGEST_SIDE = 640
"""Pixels in a page with one image; several share the room."""
SHORTEST_SIDE = 192


def image_data(explanation: Explanation | GenerationExplanation, results: int) -> dict[str, Any] | None:
    """The image as a data URL, its size, and the boxes of all positions in it."""
    if explanation.image_size is None or explanation.image is None:
        return None
    side = max(SHORTEST_SIDE, round(LONGEST_SIDE / results**0.5))
    image = explanation.image.convert("RGB")
    image.thumbnail((side, side))
    file = BytesIO()
    image.save(file, "JPEG", quality=80, optimize=True)
    return {
        "url": f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}",
        "size": list(explanation.image_size),
        "with_text": explanation.text is not None,
        "boxes": [None if position.box is None else list(position.box) for position in explanation.positions],
    }


_WIDTH, _HEIGHT = 960, 180
"""Pixels."""
_PAPER, _INK = 255, 96


def waveform(explanation: Explanation, *, player: bool) -> dict[str, Any] | None:
    """Audio as an image with the boxes of all positions; with `player` also for playback."""
    seconds = explanation.seconds
    if seconds is None:
        return None
    channels = max((position.band[1] for position in explanation.positions if position.band is not None), default=1)
    boxes = [
        None
        if position.time is None
        else _box(position.time, position.band or (0, 1), seconds, channels if position.band else 1)
        for position in explanation.positions
    ]
    result: dict[str, Any] = {
        "url": _audio_image(explanation),
        "size": [_WIDTH, _HEIGHT],
        "boxes": boxes,
        "audio": True,
    }
    if player and explanation.audio is not None:
        result["player"] = _player(explanation.audio)
    return result


def _box(time: tuple[float, float], band: tuple[int, int], seconds: float, channels: int) -> list[float]:
    """Left, top, right and bottom; low pitches are at the bottom."""
    left, right = (_WIDTH * value / seconds for value in time)
    return [left, _HEIGHT * (1 - band[1] / channels), right, _HEIGHT * (1 - band[0] / channels)]


def _audio_image(explanation: Explanation) -> str:
    """The waveform in gray, or the spectrum for a model with frequency bands; empty where the audio is missing."""
    from PIL import Image

    sheet = np.full((_HEIGHT, _WIDTH), _PAPER, dtype=np.uint8)
    audio = explanation.audio
    if audio is not None and banded(explanation):
        dark = np.round(_PAPER - (_PAPER - _INK) * spectrum(audio)[::-1]).astype(np.uint8)
        image = Image.fromarray(np.ascontiguousarray(dark)).resize((_WIDTH, _HEIGHT))
    else:
        if audio is not None:
            _draw_wave(sheet, audio)
        image = Image.fromarray(sheet)
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


def _draw_wave(sheet: Any, audio: Audio) -> None:
    low, high = envelope(audio, _WIDTH)
    most = max(float(np.abs([low, high]).max()), 1e-9)
    for column in range(_WIDTH):
        at = min(column * len(low) // _WIDTH, len(low) - 1)
        top, bottom = (round((_HEIGHT - 1) * (1 - sample / most) / 2) for sample in (high[at], low[at]))
        sheet[top : bottom + 1, column] = _INK


def _player(audio: Audio) -> str:
    """The audio as a data URL."""
    most = max(float(np.abs(audio.samples).max()), 1e-9)
    whole = np.round(32_767 * audio.samples / max(most, 1.0)).astype("<i2")
    file = BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(audio.rate)
        wav.writeframes(whole.tobytes())
    return f"data:audio/wav;base64,{b64encode(file.getvalue()).decode()}"
