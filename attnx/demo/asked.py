"""What a visitor of the demo asked for, and the page that answers. Nothing here knows of Gradio, or keeps a state."""

from __future__ import annotations

import html
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from attnx.errors import InputError, first_line
from attnx.running.loading import load
from attnx.tasks.shipped import SHIPPED

FRAME = (
    '<iframe sandbox="allow-scripts" srcdoc="{page}" title="what attnx says" '
    'style="width: 100%; height: {height}px; border: 0"></iframe>'
)
HEIGHT = 900
LONGEST = 20_000
"""Characters of a text: whoever has more has a program to write, and not a page to try."""
MOST_PIXELS = 50_000_000
"""Of a picture, as many as a camera has; a file of a few kilobytes can claim to have thousands of times that."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
SEVERAL = 2
"""Questions that compute at once."""


@dataclass(frozen=True)
class Form:
    """One question. Empty is what nobody chose."""

    model: str
    text: str = ""
    image: Any = None
    """The file of a picture that was uploaded, or a picture as PIL has it."""
    methods: Sequence[str] = ()
    references: Sequence[str] = ()
    target: str = ""


class Models:
    """The models that visitors may ask, each loaded once. `anywhere` lets them name directories and hub ids, too.

    Those that were named come first. Whoever waits for a hub makes others wait for the same model alone.
    """

    def __init__(self, named: Sequence[str] = (), *, anywhere: bool = False) -> None:
        self.names = tuple(dict.fromkeys((*named, *SHIPPED)))
        self.anywhere = anywhere
        self.turn = threading.BoundedSemaphore(SEVERAL)
        """Held by whoever computes."""
        self._loaded: dict[str, tuple[Any, Any]] = {}
        self._loading: dict[str, threading.Lock] = {}

    def get(self, name: str) -> tuple[Any, Any]:
        """(model, tokenizer or image processor)."""
        if not isinstance(name, str):
            raise InputError("choose a model")
        name = name.strip()
        if name not in self.names and not self.anywhere:
            raise InputError(
                f"the model {name!r} is not offered here; there are: {', '.join(self.names)}. Whoever starts the demo "
                "adds others: attnx demo --model NAME"
            )
        with self._loading.setdefault(name, threading.Lock()):
            if name not in self._loaded:
                self._loaded[name] = load(name)
        return self._loaded[name]


def answer(asked: Form, models: Models) -> str:
    """The page that answers, in a frame of its own: neither it nor a text in it can reach the page around it."""
    from attnx.explaining.explain import explain

    model, processor = models.get(asked.model)
    options: dict[str, Any] = {"target": _target(asked.target)}
    if asked.methods:
        options["methods"] = list(asked.methods)
    if asked.references:
        options["references"] = list(asked.references)
    with models.turn:
        page = explain(model, processor, _given(asked, model), **options).to_html()
    return FRAME.format(page=html.escape(page, quote=True), height=HEIGHT)


def _given(asked: Form, model: Any) -> Any:
    """The text, or the picture where the model reads pictures."""
    if getattr(model, "main_input_name", "") == "pixel_values":
        if asked.image is None:
            raise InputError("this model reads pictures: drop one")
        return _picture(asked.image) if isinstance(asked.image, (str, PathLike)) else asked.image
    if not asked.text.strip():
        raise InputError("this model reads a text: type one")
    if len(asked.text) > LONGEST:
        raise InputError(f"a text of {len(asked.text):,} characters is too long for the demo, which takes {LONGEST:,}")
    return asked.text


def _picture(file: str | PathLike[str]) -> Any:
    """The picture in a file, in RGB; its size is checked before anything is decoded."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=FORMATS) as opened:
            width, height = opened.size
            if width * height <= MOST_PIXELS:
                return ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(
            f"this is no picture that can be read ({first_line(error)}); save it as PNG or JPEG"
        ) from error
    raise InputError(
        f"a picture of {width:,} × {height:,} pixels is too large for the demo, which takes {MOST_PIXELS:,}; "
        "make it smaller"
    )


def _target(typed: str) -> Any:
    """A class or a token; two with a "/" between them are set against each other."""
    first, stroke, second = (part.strip() for part in typed.partition("/"))
    if stroke and first and second:
        return first, second
    return typed.strip() or None
