"""The demo as a Gradio page: what can be asked at the left, the same page that `to_html` writes at the right."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from attnx.demo.asked import Form, Models, answer
from attnx.errors import AttnxError, InputError, in_a_line
from attnx.methods.registry import METHODS
from attnx.references.registry import REFERENCES

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
