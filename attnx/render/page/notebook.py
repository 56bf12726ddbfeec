"""A result in a notebook's cell: the page in a sandboxed frame, and beneath it the words for where frames are dropped.

The frame has an origin of its own and no network, so that neither the page nor a text in it can reach the notebook.
"""

from __future__ import annotations

from typing import Any

from attnx.render.colours import BEHIND_AGAINST, BEHIND_FOR
from attnx.render.page.content import content
from attnx.render.page.page import template, to_html
from attnx.render.page.sections.text import plain_words
from attnx.render.printable import harmless
from attnx.results.explanation import Explanation
from attnx.results.result import Result

HEIGHT = 680


def notebook_html(shown: Result | list[Explanation]) -> str:
    """HTML for `_repr_html_` of whatever a page shows, needing nothing outside itself."""
    if isinstance(shown, Explanation):
        return framed(to_html(shown), result=plain_words(*harmless(content([shown]))))
    several = shown if isinstance(shown, list) else [shown]
    return framed(to_html(shown), "\n\n".join(one.to_text() for one in several))


def framed(page: str | None, text: str = "", result: Any = None) -> str:
    """A page in its frame, and the words beneath."""
    beneath = {"result": result, "text": harmless(text), "behind": BEHIND_FOR, "against": BEHIND_AGAINST}
    cell: str = template("templates/notebook").render(page=page, height=HEIGHT, **beneath)
    return cell
