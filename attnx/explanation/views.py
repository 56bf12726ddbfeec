"""The views of an explanation as methods. Each is a file of `render/`, loaded when the view is asked for."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image
    from rich.console import RenderableType

    from attnx.render.plot.row import Kind, Unit


class Views:
    """What `Explanation` inherits; `self` is an explanation, which a base class cannot name as its type."""

    def plot(
        self: Any,
        method: str | None = None,
        layer: int | None = None,
        *,
        kind: Kind = "bars",
        by: Unit = "word",
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """One row in matplotlib, as bars or as a strip of colours (`kind="heat"`), by word or by token.

        Of an image: its overlay in the axes, or without a method the panels of all methods and references as a figure.
        `image` is the picture where the explanation has none, because it was loaded from a file.
        """
        if self.image_size is not None:
            from attnx.render.image_panels import plot_image

            return plot_image(self, method, layer, head=head, ax=ax, image=image)
        from attnx.render.plot.row import plot

        return plot(self, method, layer, kind=kind, by=by, head=head, ax=ax)

    def plot_layers(
        self: Any,
        method: str | None = None,
        *,
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """Layers × positions in matplotlib, the last layer on top (the paper's Figures 2 and 3).

        Of an image: a strip of overlays, one a layer, as a figure; `image` is as in `plot`.
        """
        if self.image_size is not None and ax is None:
            from attnx.render.image_panels import layer_strip

            return layer_strip(self, method, head=head, image=image)
        from attnx.render.plot.heat_map import plot_layers

        return plot_layers(self, method, head=head, ax=ax)

    def plot_graph(self: Any, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """The layered graph of the paper's Figure 1 in matplotlib; needs `explain(..., maps=True)`."""
        from attnx.render.plot.layered_graph import plot_graph

        return plot_graph(self, method, head=head, ax=ax)

    def __rich__(self: Any) -> RenderableType:
        """For `rich.print(e)`: the words on coloured backgrounds, as `attnx explain` shows them."""
        if self.image_size is not None:
            return str(self)
        from attnx.render.terminal import coloured

        return coloured(self)

    def overlay(
        self: Any, method: str | None = None, layer: int | None = None, head: int | None = None, **options: Any
    ) -> Image:
        """The picture with the relevance of its patches in colour, as a PIL image (see `attnx.render.overlay`)."""
        from attnx.render.overlay import overlay

        return overlay(self, method, layer, head, **options)

    @overload
    def to_html(self: Any, path: None = None) -> str: ...

    @overload
    def to_html(self: Any, path: str | PathLike[str]) -> None: ...

    def to_html(self: Any, path: str | PathLike[str] | None = None) -> str | None:
        """A page to look at, in one file that needs no network; written to `path`, or returned without one."""
        from attnx.render.html import to_html

        return to_html(self) if path is None else to_html(self, path)

    def _repr_html_(self: Any) -> str:
        """What a notebook shows."""
        from attnx.render.html.notebook import notebook_html

        return notebook_html(self)

    def to_bertviz(self: Any, method: str | None = None) -> dict[str, Any]:
        """For BertViz's `head_view` and `model_view`; needs `maps=True`. `head="each"` gives all heads, else one."""
        from attnx.render.bertviz import to_bertviz

        return to_bertviz(self, method)

    def to_captum(
        self: Any, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
    ) -> VisualizationDataRecord:
        """A record for Captum's `visualize_text`."""
        from attnx.render.captum import to_captum

        return to_captum(self, method, layer, true_class=true_class)
