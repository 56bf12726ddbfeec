"""What an explanation can be drawn as: its views by name and with their types, so that an editor completes them.

A result has no views of its own; each line asks the kind's row of the table in `result`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attnx.results.result import Result

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

Bars: TypeAlias = Literal["bars", "heat"]
Unit: TypeAlias = Literal["word", "token"]


class Drawn(Result):
    """The drawing side of an explanation."""

    def plot(
        self,
        method: str | None = None,
        layer: int | None = None,
        *,
        kind: Bars = "bars",
        by: Unit = "word",
        content_only: bool = False,
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """One row in matplotlib, as bars or as a strip of colours (`kind="heat"`), by word or by token.

        `content_only` leaves punctuation and special tokens out, and says what share they hold. Of an image: its
        overlay in the axes, or without a method the panels of all methods and references as a figure.
        `image` is the picture where the explanation has none, because it was loaded from a file.
        """
        drawn: Axes | Figure = self._view.plot(
            self, method, layer, kind=kind, by=by, content_only=content_only, head=head, ax=ax, image=image
        )
        return drawn

    def plot_layers(
        self,
        method: str | None = None,
        *,
        special: bool = False,
        content_only: bool = False,
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """Layers × positions in matplotlib, the last layer on top (the paper's Figures 2 and 3).

        Special tokens, which would take most of the colours, are drawn if you ask for them; `content_only` leaves
        punctuation out, too. Of an image: a strip of overlays, one a layer, as a figure; `image` is as in `plot`.
        """
        drawn: Axes | Figure = self._view.more["plot_layers"](
            self, method, special=special, content_only=content_only, head=head, ax=ax, image=image
        )
        return drawn

    def plot_graph(self, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """The layered graph of the paper's Figure 1 in matplotlib; needs `explain(..., maps=True)`."""
        drawn: Axes = self._view.more["plot_graph"](self, method, head=head, ax=ax)
        return drawn

    def overlay(
        self, method: str | None = None, layer: int | None = None, head: int | None = None, **options: Any
    ) -> Image:
        """The picture with the relevance of its patches in colour, as a PIL image (see `attnx.render.overlay`)."""
        laid: Image = self._view.more["overlay"](self, method, layer, head, **options)
        return laid

    def to_bertviz(self, method: str | None = None) -> dict[str, Any]:
        """For BertViz's `head_view` and `model_view`; needs `maps=True`. `head="each"` gives all heads, else one."""
        given: dict[str, Any] = self._view.more["to_bertviz"](self, method)
        return given

    def to_captum(
        self, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
    ) -> VisualizationDataRecord:
        """A record for Captum's `visualize_text`."""
        return self._view.more["to_captum"](self, method, layer, true_class=true_class)
