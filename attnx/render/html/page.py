"""The page: one file with its style, its scripts and the numbers inside.

Tokens are anybody's text. They reach the page in two ways: through jinja with autoescape, and as JSON that no parser
of HTML can leave; the scripts put them in as text and never as markup. A content-security policy in the page lets
nothing run but the package's own scripts, and nothing be loaded at all.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any, overload

from attnx.errors import AttnxError, InputError
from attnx.explanation import Explanation
from attnx.render.html.content import content
from attnx.render.html.plain import plain

SCRIPTS = (
    "numbers", "state", "elements", "colours", "answer", "text", "trust", "layers", "graph_lines", "graph", "heads",
    "agreement", "details", "page",
)  # fmt: skip
"""In the order in which they need each other; each adds one name to `attnx`."""
PLAIN_RESULTS = 50
"""So many are shown where no script runs."""


@overload
def to_html(results: Any, path: None = None, *, title: str | None = None) -> str: ...


@overload
def to_html(results: Any, path: str | PathLike[str], *, title: str | None = None) -> None: ...


def to_html(results: Any, path: str | PathLike[str] | None = None, *, title: str | None = None) -> str | None:
    """One page for an explanation or for several with a picker; written to `path`, or returned without one."""
    explanations = _explanations(results)
    shown = content(explanations)
    heading = title or shown["results"][0]["title"]
    page: str = template("page").render(
        title=heading,
        named=title,
        results=[plain(one) for one in shown["results"][:PLAIN_RESULTS]],
        more=len(shown["results"]) - PLAIN_RESULTS,
        policy=policy(),
        style=style(),
        scripts=scripts(),
        data=as_json(shown),
    )
    if path is None:
        return page
    try:
        # A surrogate by itself has no bytes; as a character reference it is shown as the replacement character.
        Path(path).write_text(page, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")
    except OSError as error:
        raise AttnxError(f"cannot write {fspath(path)}: {error}") from error
    return None


def _explanations(results: Any) -> list[Explanation]:
    several = [results] if isinstance(results, Explanation) else list(results) if _is_list(results) else []
    if not several or not all(isinstance(one, Explanation) for one in several):
        raise InputError(f"a page shows an explanation or a list of them, found {type(results).__name__}")
    return several


def _is_list(results: Any) -> bool:
    return isinstance(results, Sequence) and not isinstance(results, (str, bytes))


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
