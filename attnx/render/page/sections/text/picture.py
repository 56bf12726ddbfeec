"""The picture of an explained image in a page, small, with the box of each patch."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation

LONGEST_SIDE = 640
"""Pixels, of a page with one picture; several share the room."""
SHORTEST_SIDE = 192


def picture(explanation: Explanation | GenerationExplanation, results: int) -> dict[str, Any] | None:
    """The picture as a data URL, its size, and the boxes of all positions in it; None for a text, or without one."""
    if explanation.image_size is None or explanation.image is None:
        return None
    side = max(SHORTEST_SIDE, round(LONGEST_SIDE / results**0.5))
    shown = explanation.image.convert("RGB")
    shown.thumbnail((side, side))
    written = BytesIO()
    shown.save(written, "JPEG", quality=80, optimize=True)
    return {
        "url": f"data:image/jpeg;base64,{b64encode(written.getvalue()).decode()}",
        "size": list(explanation.image_size),
        "beside": explanation.text is not None,
        "boxes": [None if one.box is None else list(one.box) for one in explanation.positions],
    }
