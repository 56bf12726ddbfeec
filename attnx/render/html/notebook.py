"""A result in a notebook's cell: the page in a sandboxed frame, and beneath it the words for where frames are dropped.

The frame has an origin of its own and no network, so that neither the page nor a text in it can reach the notebook.
"""

from __future__ import annotations

from typing import Any

from attnx.explanation import Explanation
from attnx.render.html.content import content
from attnx.render.html.page import template, to_html
from attnx.render.html.plain import plain
from attnx.render.printable import harmless

HEIGHT = 680


def notebook_html(shown: Any) -> str:
    """HTML for `_repr_html_` of whatever a page shows, needing nothing outside itself."""
    beneath: dict[str, Any] = {"result": None, "text": ""}
    if isinstance(shown, Explanation):
        beneath["result"] = plain(*harmless(content([shown])))
    else:
        beneath["text"] = harmless(shown.text())
    cell: str = template("notebook").render(page=to_html(shown), height=HEIGHT, **beneath)
    return cell
