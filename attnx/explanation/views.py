"""The views of an explanation as methods. Each is a file of `render/`, loaded when the view is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    ) -> Axes:
        """One row in matplotlib, as bars or as a strip of colours (`kind="heat"`), by word or by token."""
        from attnx.render.plot.row import plot

        return plot(self, method, layer, kind=kind, by=by, head=head, ax=ax)

    def plot_layers(self: Any, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """Layers × positions in matplotlib, the last layer on top (the paper's Figures 2 and 3)."""
        from attnx.render.plot.heat_map import plot_layers

        return plot_layers(self, method, head=head, ax=ax)

    def plot_graph(self: Any, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """The layered graph of the paper's Figure 1 in matplotlib; needs `explain(..., maps=True)`."""
        from attnx.render.plot.layered_graph import plot_graph

        return plot_graph(self, method, head=head, ax=ax)
