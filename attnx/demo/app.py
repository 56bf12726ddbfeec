"""The demo as a Gradio page: what can be asked at the left, the same page that `to_html` writes at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
SEVERAL = 2
"""Questions that are answered at once; others wait in a line."""


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

    with gradio.Blocks(title="attnx", analytics_enabled=False) as page:
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
                image = gradio.Image(label="Picture, for a vision model", type="pil", sources=["upload", "clipboard"])
                methods = gradio.Dropdown(METHODS.names(), multiselect=True, label="Methods (as usual if none)")
                references = gradio.Dropdown(REFERENCES.names(), multiselect=True, label="References")
                target = gradio.Textbox(label="Target", placeholder="the answer; or one / another")
                button = gradio.Button("Explain", variant="primary")
            with gradio.Column(scale=3):
                seen = gradio.HTML(label="Answer")
        given = [model, text, image, methods, references, target]
        button.click(asked, given, seen, concurrency_limit=SEVERAL, api_name=False)
        text.submit(asked, given, seen, concurrency_limit=SEVERAL, api_name=False)
        gradio.Examples([list(one) for one in EXAMPLES], [model, text], label="Try")
    return page


def serve(names: Sequence[str], host: str, port: int | None, *, browser: bool = False) -> None:
    """Serve it until it is stopped. Only on loopback may visitors name directories of this machine."""
    models = Models(names, anywhere=host in LOOPBACK)
    build(models).launch(server_name=host, server_port=port, inbrowser=browser, **looks())


def looks() -> dict[str, Any]:
    """How it is served: with nothing of another host, and no file of this one."""
    plain = _gradio().themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    return {"share": False, "theme": plain, "footer_links": [], "allowed_paths": [], "show_error": True}


def _gradio() -> Any:
    try:
        import gradio
    except ImportError as error:
        raise InputError('the demo needs Gradio: pip install "attnx[demo]"') from error
    return gradio
