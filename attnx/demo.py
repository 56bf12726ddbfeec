"""The demo as a Gradio page: what can be asked at the left, the same page that `to_html` writes at the right."""

from __future__ import annotations

import html
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any
from urllib.parse import urlsplit

from attnx.attribution import REFERENCES
from attnx.demo_models import SHIPPED
from attnx.errors import AttnxError, InputError, first_line, in_a_line
from attnx.methods import METHODS
from attnx.pipeline import load

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
    from attnx.pipeline.explain import explain

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


LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOLD = (
    "### attnx\nWhat did the model base this on? Type a text, or drop a picture. Nothing of it leaves the machine that "
    "runs this page."
)
EXAMPLES = (
    ("verb-number", "the keys to the cabinet"),
    ("recall", "k3 v7 k1 v2 k8 v5 k1"),
)
VISITORS = 16
"""Questions that are taken in at once; others wait in a line. How many of them compute at once, `Models` says."""
LARGEST_UPLOAD = 20 * 2**20
"""Bytes of a request, and so of an uploaded file."""
KEPT = 600
"""Seconds after which an uploaded file is removed, unless the demo ends before."""


def build(models: Models) -> Any:
    """The page, not yet served."""
    gradio = _gradio()

    def asked(
        model: str,
        text: str,
        image: Any,
        methods: list[str],
        references: list[str],
        target: str,
        progress: Any = gradio.Progress(),  # noqa: B008, Gradio looks for it in the signature
    ) -> str:
        progress(0.1, desc=f"asking {model}")
        try:
            return answer(Form(model, text or "", image, methods, references, target or ""), models)
        except (AttnxError, OSError, MemoryError) as error:
            raise gradio.Error(in_a_line(error), print_exception=False) from None

    with gradio.Blocks(title="attnx", analytics_enabled=False, delete_cache=(KEPT, KEPT)) as page:
        gradio.Markdown(TOLD)
        with gradio.Row():
            with gradio.Column(scale=1, min_width=280):
                model = gradio.Dropdown(
                    list(models.names),
                    value=models.names[0],
                    label="Model",
                    allow_custom_value=models.anywhere,
                    info="A name, a directory or a hub id" if models.anywhere else None,
                )
                text = gradio.Textbox(label="Text", lines=3, value=EXAMPLES[0][1])
                image = gradio.Image(  # as a file: it is decoded once its size is known
                    label="Picture, for a vision model",
                    type="filepath",
                    image_mode=None,
                    sources=["upload", "clipboard"],
                )
                methods = gradio.Dropdown(METHODS.names(), multiselect=True, label="Methods (as usual if none)")
                references = gradio.Dropdown(REFERENCES.names(), multiselect=True, label="References")
                target = gradio.Textbox(label="Target", placeholder="the answer; or one / another")
                button = gradio.Button("Explain", variant="primary")
            with gradio.Column(scale=3):
                seen = gradio.HTML(label="Answer")
        given = [model, text, image, methods, references, target]
        button.click(asked, given, seen, concurrency_limit=VISITORS, api_name=False)
        text.submit(asked, given, seen, concurrency_limit=VISITORS, api_name=False)
        gradio.Examples([list(one) for one in EXAMPLES], [model, text], label="Try")
    return page


def serve(names: Sequence[str], host: str, port: int | None, *, browser: bool = False) -> None:
    """Serve it until it is stopped. Only on loopback may visitors name directories of this machine."""
    local = host in LOOPBACK
    with _uploads_removed():
        page = build(Models(names, anywhere=local))
        page.launch(server_name=host, server_port=port, inbrowser=browser, **looks(LOOPBACK if local else ()))


def looks(hosts: Collection[str] = ()) -> dict[str, Any]:
    """How it is served: with nothing of another host, no file of this one, and only under these names, if there are
    any."""
    from starlette.middleware import Middleware

    plain = _gradio().themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    return {
        "share": False,
        "theme": plain,
        "footer_links": [],
        "allowed_paths": [],
        "show_error": True,
        "max_file_size": LARGEST_UPLOAD,
        "app_kwargs": {"middleware": [Middleware(Guard, hosts=frozenset(hosts))]},
    }


class Guard:
    """An ASGI middleware that turns away requests under another host's name, from its pages, and those too large.

    Without the first, a page of any site could have its name lead to this machine, and read what the demo answers.
    """

    def __init__(self, app: Any, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        if scope["type"] in ("http", "websocket"):
            refused = self._refused(Headers(scope=scope))
            if refused is not None:
                await PlainTextResponse(refused[1], status_code=refused[0])(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refused(self, headers: Any) -> tuple[int, str] | None:
        """The status and the reason, or None for a request that may pass."""
        origin = headers.get("origin")
        if self._hosts and _hostname("//" + headers.get("host", "")) not in self._hosts:
            return 421, "this demo answers on this machine alone"
        if self._hosts and origin is not None and _hostname(origin) not in self._hosts:
            return 403, "this demo answers its own page alone"
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > LARGEST_UPLOAD:
            return 413, f"a request may have {LARGEST_UPLOAD:,} bytes at most, with its length in front"
        return None


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


@contextmanager
def _uploads_removed() -> Iterator[None]:
    """Uploaded files have a folder of their own, which is removed at the end, also at that of `kill`."""
    before = os.environ.get("GRADIO_TEMP_DIR")
    main = threading.current_thread() is threading.main_thread()  # where signals arrive
    handler = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number)) if main else None
    try:
        with tempfile.TemporaryDirectory(prefix="attnx-demo-", ignore_cleanup_errors=True) as folder:
            os.environ["GRADIO_TEMP_DIR"] = folder  # read when Gradio is imported, and again by each of its parts
            yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)
        if before is None:
            del os.environ["GRADIO_TEMP_DIR"]
        else:
            os.environ["GRADIO_TEMP_DIR"] = before


def _gradio() -> Any:
    try:
        import gradio
    except ImportError as error:
        raise InputError('the demo needs Gradio: pip install "attnx[demo]"') from error
    return gradio
