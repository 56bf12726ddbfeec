"""The demo, a Gradio page: a form on the left, and on the right the page that `to_html` writes."""

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
    '<iframe sandbox="allow-scripts" srcdoc="{page}" title="explanation" '
    'style="width: 100%; height: 900px; border: 0"></iframe>'
)
MAX_CHARACTERS = 20_000
MAX_PIXELS = 50_000_000
"""As many as a camera has; a file of a few kilobytes can claim to have thousands of times that."""
MAX_UPLOAD = 20 * 2**20
"""Bytes of a request, and so of an uploaded file."""
MAX_QUEUE = 16
"""Requests that are accepted at once; others wait."""
MAX_COMPUTING = 2
"""Requests that compute at once."""
UPLOAD_LIFETIME = 600
"""Seconds after which an uploaded file is removed, unless the demo ends before."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXAMPLES = (("verb-number", "the keys to the cabinet"), ("recall", "k3 v7 k1 v2 k8 v5 k1"))


@dataclass(frozen=True)
class Form:
    """What a visitor filled in; empty fields have the defaults of `explain`."""

    model: str
    text: str = ""
    image: Any = None
    """The file of an uploaded image, or an image of PIL."""
    methods: Sequence[str] = ()
    references: Sequence[str] = ()
    target: str = ""
    """A class or a token; two with a "/" between them are contrasted."""

    def options(self) -> dict[str, Any]:
        """The options of `explain`."""
        first, slash, second = (part.strip() for part in self.target.partition("/"))
        target = (first, second) if slash and first and second else self.target.strip() or None
        lists = {"methods": list(self.methods), "references": list(self.references)}
        return {"target": target, **{name: names for name, names in lists.items() if names}}

    def inputs(self, model: Any) -> Any:
        """The text, or the image where the model reads images."""
        if getattr(model, "main_input_name", "") == "pixel_values":
            if self.image is None:
                raise InputError("this model reads images: drop one")
            return _load_image(self.image) if isinstance(self.image, (str, PathLike)) else self.image
        if not self.text.strip():
            raise InputError("this model reads text: type one")
        if len(self.text) > MAX_CHARACTERS:
            raise InputError(f"the text has {len(self.text):,} characters, the demo takes up to {MAX_CHARACTERS:,}")
        return self.text


class Models:
    """The models that visitors may choose, each loaded once.

    Args:
        names: Models to offer first.
        anywhere: Whether visitors may name directories and hub ids, too.
    """

    def __init__(self, names: Sequence[str] = (), *, anywhere: bool = False) -> None:
        self.names = tuple(dict.fromkeys((*names, *SHIPPED)))
        self.anywhere = anywhere
        self.computing = threading.BoundedSemaphore(MAX_COMPUTING)
        self._loaded: dict[str, tuple[Any, Any]] = {}
        self._locks: dict[str, threading.Lock] = {}

    def get(self, name: str) -> tuple[Any, Any]:
        """(model, tokenizer or image processor); who waits for a hub keeps others waiting for the same model only."""
        if not isinstance(name, str):
            raise InputError("choose a model")
        name = name.strip()
        if name not in self.names and not self.anywhere:
            raise InputError(
                f"the model {name!r} is not offered here; there are: {', '.join(self.names)}. Others are added where "
                "the demo is started: attnx demo --model NAME"
            )
        with self._locks.setdefault(name, threading.Lock()):
            if name not in self._loaded:
                self._loaded[name] = load(name)
        return self._loaded[name]


def render(form: Form, models: Models) -> str:
    """The page of the explanation, in a frame of its own: neither it nor a text in it can reach the page around it."""
    from attnx.pipeline.explain import explain

    model, processor = models.get(form.model)
    with models.computing:
        page = explain(model, processor, form.inputs(model), **form.options()).to_html()
    return FRAME.format(page=html.escape(page, quote=True))


def _load_image(file: str | PathLike[str]) -> Any:
    """The image in RGB; its size is checked before anything is decoded."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if width * height <= MAX_PIXELS:
                return ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"the image cannot be read ({first_line(error)}); save it as PNG or JPEG") from error
    raise InputError(f"the image has {width:,} × {height:,} pixels, the demo takes up to {MAX_PIXELS:,}; scale it down")


def build(models: Models) -> Any:
    """The page, not yet served."""
    gradio = _gradio()

    def submit(
        model: str,
        text: str,
        image: Any,
        methods: list[str],
        references: list[str],
        target: str,
        progress: Any = gradio.Progress(),  # noqa: B008, Gradio looks for it in the signature
    ) -> str:
        progress(0.1, desc=f"explaining {model}")
        try:
            return render(Form(model, text or "", image, methods, references, target or ""), models)
        except (AttnxError, OSError, MemoryError) as error:
            raise gradio.Error(in_a_line(error), print_exception=False) from None

    with gradio.Blocks(title="attnx", analytics_enabled=False, delete_cache=(UPLOAD_LIFETIME,) * 2) as page:
        gradio.Markdown(
            "### attnx\nWhat did the model base its prediction on? Type a text, or drop an image. Nothing leaves the "
            "machine that runs this page."
        )
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
                    label="Image, for a vision model",
                    type="filepath",
                    image_mode=None,
                    sources=["upload", "clipboard"],
                )
                methods = gradio.Dropdown(METHODS.names(), multiselect=True, label="Methods (default if empty)")
                references = gradio.Dropdown(REFERENCES.names(), multiselect=True, label="References")
                target = gradio.Textbox(label="Target", placeholder="a class or token; or one / another")
                button = gradio.Button("Explain", variant="primary")
            with gradio.Column(scale=3):
                output = gradio.HTML(label="Explanation")
        inputs = [model, text, image, methods, references, target]
        for event in (button.click, text.submit):
            event(submit, inputs, output, concurrency_limit=MAX_QUEUE, api_name=False)
        gradio.Examples([list(example) for example in EXAMPLES], [model, text], label="Examples")
    return page


def serve(names: Sequence[str], host: str, port: int | None, *, browser: bool = False) -> None:
    """Serve the page until it is stopped. Only on loopback may visitors name directories of this machine."""
    local = host in LOOPBACK
    with _temporary_uploads():
        page = build(Models(names, anywhere=local))
        options = launch_options(LOOPBACK if local else ())
        page.launch(server_name=host, server_port=port, inbrowser=browser, **options)


def launch_options(hosts: Collection[str] = ()) -> dict[str, Any]:
    """Options of Gradio's `launch`: nothing from other hosts, no files of this one; only under these names, if any."""
    from starlette.middleware import Middleware

    return {
        "share": False,
        "theme": _gradio().themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        "footer_links": [],
        "allowed_paths": [],
        "show_error": True,
        "max_file_size": MAX_UPLOAD,
        "app_kwargs": {"middleware": [Middleware(Guard, hosts=frozenset(hosts))]},
    }


class Guard:
    """An ASGI middleware that refuses requests under another host's name, from its pages, and those too large.

    Without the first, a page of any site could have its name lead to this machine, and read what the demo answers.
    """

    def __init__(self, app: Any, hosts: Collection[str] = ()) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        if scope["type"] in ("http", "websocket"):
            status, reason = self._refusal(Headers(scope=scope))
            if status:
                await PlainTextResponse(reason, status_code=status)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Any) -> tuple[int, str]:
        """The status and the reason; status 0 lets the request pass."""
        origin, length = headers.get("origin"), headers.get("content-length", "0")
        if self._hosts and _hostname("//" + headers.get("host", "")) not in self._hosts:
            return 421, "this demo is for this machine only"
        if self._hosts and origin is not None and _hostname(origin) not in self._hosts:
            return 403, "this demo is for its own page only"
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > MAX_UPLOAD:
            return 413, f"a request may have {MAX_UPLOAD:,} bytes at most, and must declare its length"
        return 0, ""


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


@contextmanager
def _temporary_uploads() -> Iterator[None]:
    """A folder for uploaded files that is removed at the end, also at that of `kill`."""
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
