"""Results as one HTML file that needs nothing else: no network, no server, no package."""

from attnx.render.html.page import to_html

__all__ = ["to_html"]
