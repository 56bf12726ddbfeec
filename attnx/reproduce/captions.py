"""What stands under a figure: the model that it shows, and the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from torch import nn

from attnx.render.axes import VERBATIM
from attnx.render.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_INCHES_A_LETTER = 0.068
"""At the size of a caption, on average."""


def model_title(model: nn.Module) -> str:
    """What readers know the model by: its name and its class; of a directory the last part alone."""
    name, kind = Path(getattr(model.config, "name_or_path", "") or "").name, type(model).__name__
    return f"{name} ({kind})" if name else kind


def captioned(figure: FigureBase, model: nn.Module, texts: Sequence[str] = (), *, width: float) -> None:
    """Write it under a figure that is so many inches wide; as many lines as it takes."""
    said = ": ".join([model_title(model), *([" · ".join(f"“{printable(text)}”" for text in texts)] if texts else [])])
    lines = wrap(said, max(20, int(width / _INCHES_A_LETTER)))
    figure.supxlabel("\n".join(lines), fontsize=8, color="0.35", **VERBATIM)
