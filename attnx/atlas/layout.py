"""An atlas as text, Markdown and pandas table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from attnx.errors import AttnxError
from attnx.render.columns import aligned, decimals, piped

if TYPE_CHECKING:
    import pandas

    from attnx.atlas.atlas import HeadAtlas

_BEST = 3


def text(atlas: HeadAtlas) -> str:
    return "\n\n".join(_block(atlas, by, aligned, lambda heading: heading) for by in atlas.values)


def markdown(atlas: HeadAtlas) -> str:
    return "\n\n".join(_block(atlas, by, piped, lambda heading: f"**{heading}**") for by in atlas.values)


def to_frame(atlas: HeadAtlas) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise AttnxError("to_frame needs pandas: pip install pandas") from error
    names = list(atlas.values)
    return pandas.DataFrame(
        {"text": number, "layer": atlas.layers[layer], "head": head}
        | {name: float(atlas.values[name][number, layer, head]) for name in names}
        for number, layer, head in np.ndindex(atlas.values[names[0]].shape)
    )


def title(atlas: HeadAtlas, by: str) -> str:
    """What a grid shows."""
    if by in atlas.references:
        return f"{atlas.method} against {by} ({atlas.measure})"
    return "carried from other words"


def _block(atlas: HeadAtlas, by: str, table: Callable[[list[list[str]]], str], emphasise: Callable[[str], str]) -> str:
    count = len(atlas.texts)
    heading = f"{title(atlas, by).capitalize()}, mean of {count} text{'s' * (count > 1)}"
    rows = [["", *(f"h{head}" for head in range(atlas.heads))]]
    for layer, means in reversed(list(zip(atlas.layers, atlas.grid(by), strict=True))):
        rows.append([f"L{layer}", *(decimals(None if mean != mean else float(mean)) for mean in means)])
    foot = [f"Highest: {_best(atlas, by)}."] if atlas.best(1, by) else []
    missing = int(np.isnan(atlas.values[by]).sum())
    foot += [f"Undefined and left out: {missing} of {atlas.values[by].size}."] if missing else []
    return "\n".join([emphasise(heading), "", table(rows), "", *foot])


def _best(atlas: HeadAtlas, by: str) -> str:
    return ", ".join(
        f"layer {one.layer} head {one.head} ({decimals(one.summary.mean)})" for one in atlas.best(_BEST, by)
    )
