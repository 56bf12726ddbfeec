"""The page: one file with its style, its scripts and the numbers inside.

Tokens are anybody's text. They reach the page in two ways: through jinja with autoescape, and as JSON that no parser
of HTML can leave; the scripts put them in as text and never as markup. Neither way passes characters that turn the
writing round. A content-security policy in the page lets
nothing run but the package's own scripts, and nothing be loaded at all.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from attnx.errors import AttnxError, InputError
from attnx.explanation import Explanation
from attnx.render.html.content import content
from attnx.render.html.faithfulness import faithfulness_of
from attnx.render.html.head_map import head_map
from attnx.render.html.plain import plain, plain_faithfulness, plain_heads, plain_means
from attnx.render.html.summary import summary, summary_of
from attnx.render.printable import harmless

if TYPE_CHECKING:
    from attnx.atlas import HeadAtlas
    from attnx.comparison import Comparison, Faithfulness

SCRIPTS = (
    "numbers", "state", "elements", "colours", "agreement_table", "summary", "head_grid", "atlas", "faithfulness",
    "answer", "text", "picture", "trust", "layers", "graph_lines", "graph", "heads", "agreement", "details", "page",
)  # fmt: skip
"""In the order in which they need each other; each adds one name to `attnx`."""
PLAIN_RESULTS = 50
"""So many are shown where no script runs."""


@overload
def to_html(results: Any, path: None = None, *, title: str | None = None) -> str: ...


@overload
def to_html(results: Any, path: str | PathLike[str], *, title: str | None = None) -> None: ...


def to_html(results: Any, path: str | PathLike[str] | None = None, *, title: str | None = None) -> str | None:
    """One page for an explanation, for several with a picker, or for what was measured over many texts."""
    explanations, comparison, atlas, faithfulness = _sorted(results)
    shown = harmless(content(explanations))
    overall = harmless(summary(comparison) if comparison is not None else summary_of(explanations))
    heads = None if atlas is None else harmless(head_map(atlas))
    faith = None if faithfulness is None else harmless(faithfulness_of(faithfulness))
    title = None if title is None else harmless(title)
    page: str = template("page").render(
        title=title or (shown[0]["title"] if len(shown) == 1 else "Results"),
        named=title,
        results=[plain(one) for one in shown[:PLAIN_RESULTS]],
        more=len(shown) - PLAIN_RESULTS,
        tables=[*plain_means(overall), *plain_heads(heads), *plain_faithfulness(faith)],
        policy=policy(),
        style=style(),
        scripts=scripts(),
        data=as_json({"results": shown, "summary": overall, "atlas": heads, "faithfulness": faith}),
    )
    if path is None:
        return page
    try:
        Path(path).write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise AttnxError(f"cannot write {fspath(path)}: {error}") from error
    return None


def _sorted(results: Any) -> tuple[list[Explanation], Comparison | None, HeadAtlas | None, Faithfulness | None]:
    """The explanations, and what was measured over many texts if there is such."""
    from attnx.atlas import HeadAtlas
    from attnx.comparison import Comparison, Faithfulness

    several = list(results) if isinstance(results, (list, tuple)) else [results]
    explanations = [one for one in several if isinstance(one, Explanation)]
    comparisons = [one for one in several if isinstance(one, Comparison)]
    atlases = [one for one in several if isinstance(one, HeadAtlas)]
    faithful = [one for one in several if isinstance(one, Faithfulness)]
    known = len(explanations) + len(comparisons) + len(atlases) + len(faithful)
    if not several or known < len(several) or max(len(comparisons), len(atlases), len(faithful)) > 1:
        found = ", ".join(dict.fromkeys(type(one).__name__ for one in several)) or "none"
        raise InputError(
            "a page shows explanations, a comparison, a head atlas, faithfulness, or one of each together; "
            f"found {found}"
        )
    return explanations, next(iter(comparisons), None), next(iter(atlases), None), next(iter(faithful), None)


def as_json(value: Any) -> Any:
    """JSON for a `<script>` that is not run: without `<`, `>` and `&` there is no `</script` and no `<!--` in it."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def policy() -> str:
    """Nothing is loaded, and nothing runs but what stands in the package, told by its hash."""
    scripts_ = " ".join(_hash(one) for one in scripts())
    return (
        f"default-src 'none'; script-src {scripts_}; style-src {_hash(style())}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def style() -> Any:
    return _file("style/page.css")


@cache
def scripts() -> tuple[Any, ...]:
    return tuple(_file(f"script/{name}.js") for name in SCRIPTS)


@cache
def template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("attnx.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.html.jinja")


def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup(files("attnx.render.html").joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
