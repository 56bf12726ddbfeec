"""An explained image: the overlay of one method, panels of several, or one method at every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.adapters import load_image
from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import Explanation, chosen_method, layered_method
from attnx.views.plots import VERBATIM, axes_or_new, figure_caption
from attnx.views.terminal import colour_map as two_colours
from attnx.views.text import judgement, row_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[Any]]

COLOURS = ("viridis", "cividis", "magma", "inferno", "plasma")
"""Colour maps whose lightness grows with the score, so that they are legible to the colour-blind and in gray."""

READABLE = 320
"""Pixels on the longer side below which an overlay is enlarged."""

_STRENGTH = 0.65
"""The opacity of the colours over the image."""


def overlay(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    *,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
    bar: bool = True,
    highest: float | None = None,
    enlarge: bool | None = None,
) -> Image:
    """The image in gray under the scores in colour; what the processor cropped away stays plain gray.

    `image` is the image where the explanation has none, because it was loaded from a file. Colours go from 0 to the
    `highest` score of a patch. Signed scores have two colours: orange supports the target and blue opposes it, as on
    the page. A very small image is enlarged by a whole factor; without its `bar`, or with `enlarge=False`, the result
    has the image's own size.
    """
    scores = explanation.scores(method, layer, head)
    if highest is not None and not highest > 0:
        raise ChoiceError(f"highest is the score of the brightest colour and must be above 0, found {highest}")
    most = highest_score(explanation, scores) if highest is None else highest
    picture = picture_of(explanation, image)
    picture = _readable(picture) if (bar if enlarge is None else enlarge) else picture
    signed = explanation.attributions[chosen_method(explanation, method, layer, head)].signed
    laid = lit(explanation, scores, picture, colours, most, smooth=smooth, signed=signed)
    labels = (f"+{most:.2g}", "0", f"-{most:.2g}") if signed else (f"{most:.2g}", "0")
    return _with_bar(laid, colour_map(colours, signed=signed), labels) if bar else laid


def lit(
    explanation: Explanation,
    scores: Array,
    picture: Image,
    colours: str,
    highest: float,
    *,
    smooth: bool = True,
    signed: bool = False,
) -> Image:
    """The image, or a smaller copy, under the scores; a patch that is itself explained has a white frame."""
    from PIL import ImageDraw

    heated = heat(explanation, scores if signed else np.abs(scores), smooth=smooth, size=picture.size)
    most = highest or 1.0  # where no patch has a score, any scale shows it
    laid = _blended(picture, heated, -most if signed else 0.0, most, colour_map(colours, signed=signed))
    explained = explanation.positions[explanation.position].box
    if explained is not None and explanation.image_size is not None:
        across, down = (index / other for index, other in zip(picture.size, explanation.image_size, strict=True))
        left, top, right, bottom = (round(edge * by) for edge, by in zip(explained, (across, down) * 2, strict=True))
        width = max(1, min(picture.size) // 150)
        ImageDraw.Draw(laid).rectangle((left, top, right - 1, bottom - 1), outline="white", width=width)
    return laid


def _readable(picture: Image) -> Image:
    """The image large enough to distinguish its patches, without interpolation."""
    from PIL import Image

    times = -(-READABLE // max(picture.size))
    return picture.resize((times * picture.width, times * picture.height), Image.Resampling.NEAREST)


def heat(explanation: Explanation, scores: Array, *, smooth: bool = True, size: tuple[int, int] | None = None) -> Array:
    """height × width of the original image: the score of the patch there, NaN where the model saw nothing.

    Smooth, a patch has its own score at its centre and scores between centres are interpolated; otherwise all of its
    box has it. With a `size`, (width, height), it is that of a smaller or larger copy of the image.
    """
    if explanation.image_size is None:
        raise InputError("this explanation is not of an image: it has no patches to overlay")
    placed = by_box(explanation, scores)
    if not placed:
        raise InputError(f"no patch has a box in the original image: {'; '.join(explanation.notes)}")
    width, height = explanation.image_size if size is None else size
    wider, higher = width / explanation.image_size[0], height / explanation.image_size[1]
    boxes = [(wider * left, higher * top, wider * right, higher * bottom) for left, top, right, bottom in placed]
    columns, rows = (_lines([(box[axis], box[axis + 2]) for box in boxes]) for axis in (0, 1))
    if not _is_grid(boxes, columns, rows):
        return _laid_over(boxes, list(placed.values()), width, height)
    grid = np.full((len(rows), len(columns)), np.nan)
    for box, score in zip(boxes, placed.values(), strict=True):
        grid[_index(rows, box[1]), _index(columns, box[0])] = score
    spread = _interpolation if smooth else _membership
    inside = np.outer(_membership(rows, height).sum(1), _membership(columns, width).sum(1)) > 0
    whole: Array = spread(rows, height) @ grid @ spread(columns, width).T
    return np.where(inside, whole, np.nan)


def highest_score(explanation: Explanation, scores: Array) -> float:
    """The highest score of a patch; where patches overlap, of a pixel."""
    placed = by_box(explanation, np.abs(scores))
    boxes = list(placed)
    if boxes and not _is_grid(boxes, *(_lines([(box[axis], box[axis + 2]) for box in boxes]) for axis in (0, 1))):
        return float(np.nanmax(heat(explanation, np.abs(scores))))
    return max(map(float, placed.values()), default=0.0)


def by_box(explanation: Explanation, scores: Array) -> dict[tuple[float, float, float, float], float]:
    """The score of each box. An image token and the patch that it reads have one box, and are summed."""
    placed: dict[tuple[float, float, float, float], float] = {}
    for position in explanation.positions:
        if position.box is not None:
            placed[position.box] = placed.get(position.box, 0.0) + float(scores[position.index])
    return placed


def picture_of(explanation: Explanation, image: Any = None) -> Image:
    """The explained image: the one in memory, or the argument."""
    if image is None:
        if explanation.image is None:
            raise InputError(
                "the explanation has no image: files do not keep it; pass it again, image=…"
                if explanation.image_size
                else "this explanation is not of an image: there is none to draw"
            )
        return explanation.image
    picture, _ = load_image(image)
    if explanation.image_size is not None and picture.size != explanation.image_size:
        expected, name = (" × ".join(map(str, size)) for size in (explanation.image_size, picture.size))
        raise InputError(f"another image was explained: it has {expected} pixels, this one {name}")
    return picture


def colour_map(colours: str, *, signed: bool = False) -> Array:
    """Shade × RGB, from the lowest score to the highest; with a sign those of all views, an odd number around 0."""
    import matplotlib

    if colours not in COLOURS:
        raise ChoiceError(unknown("colours", colours, COLOURS))
    named = two_colours(signed=True) if signed else matplotlib.colormaps[colours]
    shades: Array = np.round(255 * named(np.linspace(0, 1, 255 if signed else 256))[:, :3])
    return shades


def _blended(picture: Image, heated: Array, least: float, most: float, shades: Array) -> Image:
    """The gray image under colours from `least` to `most`; NaN is left gray."""
    from PIL import Image

    gray = picture.convert("L").convert("RGB")
    share, last = np.clip((heated - least) / (most - least), 0, 1), len(shades) - 1
    coloured = shades.astype(np.uint8)[np.nan_to_num(np.round(last * share)).astype(np.uint8)]
    # The image keeps its contrast as light and shade, so that colours stay those of the bar.
    mixed = Image.blend(gray, Image.fromarray(coloured), _STRENGTH)
    seen = Image.fromarray(~np.isnan(heated))
    return Image.composite(mixed, gray.point(lambda shade: 0.6 * shade), seen)


def _with_bar(picture: Image, shades: Array, labels: Sequence[str]) -> Image:
    """A white margin at the right with the colours and evenly spaced labels, the highest score on top."""
    from PIL import Image, ImageDraw, ImageFont

    width, height = picture.size
    size = max(10, min(36, height // 24))
    font = ImageFont.load_default(size)
    text_width = int(max(map(font.getlength, labels))) + 1
    thick = max(6, size)
    margin = size // 2
    whole = Image.new("RGB", (width + 3 * margin + thick + text_width, max(height, 3 * size)), "white")
    whole.paste(picture, (0, 0))
    ramp = Image.fromarray(shades[::-1, None].astype(np.uint8))
    left = width + margin
    whole.paste(ramp.resize((thick, whole.height - size), Image.Resampling.BILINEAR), (left, size // 2))
    draw = ImageDraw.Draw(whole)
    for label, height in zip(labels, np.linspace(size // 2, whole.height - size // 2 - 1, len(labels)), strict=True):
        draw.text((left + thick + margin, round(height)), label, fill="black", font=font, anchor="lm")
    return whole


def _is_grid(
    boxes: Sequence[tuple[float, float, float, float]],
    columns: Sequence[tuple[float, float]],
    rows: Sequence[tuple[float, float]],
) -> bool:
    """Whether boxes are the cells of one grid: tiles beside a small copy of the whole are not."""
    for left, top, right, bottom in boxes:
        if abs(columns[_index(columns, left)][1] - right) > 1e-3 or abs(rows[_index(rows, top)][1] - bottom) > 1e-3:
            return False
    ends = [end for _, end in columns], [end for _, end in rows]
    starts = [start for start, _ in columns], [start for start, _ in rows]
    return all(
        end <= start + 1e-3
        for axis_ends, axis_starts in zip(ends, starts, strict=True)
        for end, start in zip(axis_ends, axis_starts[1:], strict=False)
    )


def _laid_over(
    boxes: Sequence[tuple[float, float, float, float]], scores: Sequence[float], width: int, height: int
) -> Array:
    """height × width: each score spread evenly over its box, as much to a pixel as the smallest box would give it."""
    areas = [(right - left) * (bottom - top) for left, top, right, bottom in boxes]
    least = min(areas)
    whole, seen = np.zeros((height, width)), np.zeros((height, width), dtype=bool)
    for (left, top, right, bottom), score, area in zip(boxes, scores, areas, strict=True):
        region = (
            slice(round(top), max(round(bottom), round(top) + 1)),
            slice(round(left), max(round(right), round(left) + 1)),
        )
        whole[region] += score * least / area
        seen[region] = True
    return np.where(seen, whole, np.nan)


def _lines(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The rows or columns of the grid: start and end of each, in order."""
    return sorted({round(start, 6): (start, end) for start, end in spans}.values())


def _index(lines: Sequence[tuple[float, float]], start: float) -> int:
    return int(np.argmin([abs(line[0] - start) for line in lines]))


def _interpolation(lines: Sequence[tuple[float, float]], length: int) -> Array:
    """pixel × line: what each line gives to each pixel, by the distance of their centres."""
    centres = [(start + end) / 2 for start, end in lines]
    pixels = np.arange(length) + 0.5
    return np.stack([np.interp(pixels, centres, unit) for unit in np.eye(len(lines))], axis=1)


def _membership(lines: Sequence[tuple[float, float]], length: int) -> Array:
    """pixel × line: 1 where the centre of the pixel is in the line."""
    pixels = np.arange(length)[:, None] + 0.5
    starts, ends = np.transpose(lines)
    inside: Array = ((pixels >= starts) & (pixels < ends)).astype(np.float64)
    return inside


_WIDTH = 2.4
"""Inches of one panel."""
_PIXELS = 480
"""The longer side of the copy in a panel."""


def image_panels(
    explanation: Explanation,
    methods: Sequence[str] | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """The image next to the overlay of each method, each on its own scale from 0 to its highest."""
    names = list(explanation.methods) if methods is None else list(methods)
    scores = [explanation.scores(name, layer, head) for name in names]
    at = (explanation.layers or (1,))[-1] if layer is None else layer
    titles = [name if explanation.attributions[name].layers is None else f"{name}, layer {at}" for name in names]
    highest = [highest_score(explanation, score) for score in scores]
    signed = [explanation.attributions[name].signed for name in names]
    captions = [
        f"{title}\n{extent(most, signed=both)}" for title, most, both in zip(titles, highest, signed, strict=True)
    ]
    picture = small(picture_of(explanation, image))
    pictures = [
        lit(explanation, score, picture, colours, most, smooth=smooth, signed=both)
        for score, most, both in zip(scores, highest, signed, strict=True)
    ]
    figure = sheet([picture, *pictures], [f"image\n{_answer(explanation)}", *captions], colours, None, signed=signed)
    figure_caption(figure, judgement(explanation, explanation.methods[0], None))
    return figure


def plot_image(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    ax: Axes | None = None,
    image: Any = None,
) -> Axes | Figure:
    """The overlay of one method in some axes; without method and axes all panels."""
    if method is None and ax is None:
        return image_panels(explanation, layer=layer, head=head, image=image)
    name = chosen_method(explanation, method, layer, head)
    scores = explanation.scores(name, layer, head)
    picture = small(picture_of(explanation, image))
    axes = axes_or_new(ax, 4, 4 * picture.height / picture.width + 0.4)
    most, signed = highest_score(explanation, scores), explanation.attributions[name].signed
    axes.imshow(np.asarray(lit(explanation, scores, picture, "viridis", most, signed=signed)))
    title = [row_name(explanation, name, layer, head), *([_answer(explanation)] if explanation.prediction else [])]
    axes.set_title("\n".join(title), fontsize=9, loc="left", **VERBATIM)
    axes.set_axis_off()
    return axes


def _answer(explanation: Explanation) -> str:
    """The prediction, and on another line the target where it differs."""
    prediction = explanation.prediction
    if prediction is None:
        return " "
    target = "" if prediction.target is None else f"\ntarget: {prediction.target}"
    return f"{prediction.answer}{target}"


def layer_strip(
    explanation: Explanation,
    method: str | None = None,
    *,
    head: int | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """One method at every layer, from the input on, on one scale."""
    name = layered_method(explanation, method)
    rows = [explanation.scores(name, layer, head) for layer in explanation.layers]
    most = max(highest_score(explanation, row) for row in rows)
    picture = small(picture_of(explanation, image))
    signed = explanation.attributions[name].signed
    pictures = [lit(explanation, row, picture, colours, most, smooth=smooth, signed=signed) for row in rows]
    titles = [f"{name}, layer {layer}" for layer in explanation.layers]
    return sheet(pictures, titles, colours, most, signed=[signed])


def small(picture: Image) -> Image:
    """A copy of the size that a panel shows."""
    small = picture.convert("RGB")
    small.thumbnail((_PIXELS, _PIXELS))
    return small


def extent(most: float, *, signed: bool) -> str:
    """How far the colours of a panel go."""
    return f"from −{most:.2g} to {most:.2g}" if signed else f"highest {most:.2g}"


def sheet(
    pictures: Sequence[Image],
    titles: Sequence[str],
    colours: str,
    highest: float | None,
    *,
    signed: Sequence[bool],
    columns: int | None = None,
) -> Figure:
    """Panels with their titles in rows, and a bar of colours for those with a sign and one for those without.

    `highest` is the score of the strongest colour; None where each panel has its own.
    """
    from matplotlib.figure import Figure

    columns = min(len(pictures), 6) if columns is None else columns
    rows = -(-len(pictures) // columns)
    width, height = pictures[0].size
    # Very wide or tall images keep a readable panel.
    high = _WIDTH * min(max(height / width, 0.4), 1.6)
    lines = 1 + max(title.count("\n") for title in titles)
    figure = Figure(figsize=(columns * _WIDTH + 0.6, rows * (high + 0.25 + 0.2 * lines)), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.04 * lines)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, picture, title in zip(axes, pictures, titles, strict=False):
        ax.imshow(np.asarray(picture))
        ax.set_title(title, fontsize=9, **VERBATIM)
        ax.set(xticks=[], yticks=[], frame_on=False)  # an axis that is off leaves no room for its title
    for ax in axes[len(pictures) :]:
        ax.set_axis_off()
    for both in sorted(set(signed)):
        _bar(figure, list(axes), colours, highest, signed=both)
    return figure


def _bar(figure: Figure, axes: list[Axes], colours: str, highest: float | None, *, signed: bool) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap

    shades = ScalarMappable(cmap=ListedColormap(colour_map(colours, signed=signed) / 255))
    bar = figure.colorbar(shades, ax=axes, aspect=30, shrink=0.8, pad=0.02)
    least, most = (f"−{highest:.2g}", f"{highest:.2g}") if highest is not None else ("opposes", "supports")
    if signed:
        bar.set_ticks([0, 0.5, 1], labels=[least, "0", most], fontsize=9)
    else:
        bar.set_ticks([0, 1], labels=["0", most if highest is not None else "highest"], fontsize=9)
    bar.outline.set_visible(False)
