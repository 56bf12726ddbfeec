"""Text from the input in formats that other programs read: it must not become a formula, a link or a table's edge."""

from __future__ import annotations

import json
import re
from typing import Any

from attnx.render.printable import printable, steers

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet computes a cell that begins so, with commands of the system if it is asked to."""
_MARKUP = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file: text that would be a formula begins with an apostrophe; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip(" ").startswith(_FORMULA) else printable(value)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it stands.

    >>> markdown_text("rollout | [a](b) <i> integrated_gradients")
    'rollout \\\\| \\\\[a\\\\](b) \\\\<i\\\\> integrated_gradients'
    """
    return _MARKUP.sub(r"\\\g<0>", printable(text))


def json_line(text: str) -> str:
    """The same JSON, with what would steer a terminal written as escapes; line breaks between its values stay."""
    return "".join(json.dumps(one)[1:-1] if one != "\n" and steers(one) else one for one in text)
