"""The HTML page: one file without network access; in a notebook it is in a sandboxed frame with its own origin.

A page is made of sections, each a folder of `sections/` with a script, a style and a template.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, overload

from attnx.arguments import PAGES, file_of, replacing
from attnx.errors import AttnxError
from attnx.registry import Registry
from attnx.results import Explanation, Result
from attnx.views.escaping import harmless
from attnx.views.page.content import Plain, Shown, content
from attnx.views.page.explanation import plain_words
from attnx.views.terminal import BEHIND_AGAINST, BEHIND_FOR


class Section(NamedTuple):
    """The content of a folder of `sections/`."""

    data: Callable[[Shown], dict[str, Any] | None]
    """The data of its script; None if there is nothing to show."""
    plain: Callable[[dict[str, Any]], Sequence[Plain]] = lambda page: ()
    """The same without scripts."""
    kinds: tuple[type[Result], ...] = ()
    """The kinds of result that it shows."""


SECTIONS: Registry[Section] = Registry("section", filler="attnx.page_sections")
"""Name → section, from the top of the page down."""
SHARED = ("numbers", "state", "elements", "colours", "agreement_table", "head_grid", "share_bar")
"""Scripts that sections use, in the order of their dependencies; `start` follows all sections."""


@overload
def to_html(
    results: Any, path: None = None, *, title: str | None = None, content_only: bool = False, player: bool = False
) -> str: ...


@overload
def to_html(
    results: Any,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    content_only: bool = False,
    player: bool = False,
) -> None: ...


def to_html(
    results: Any,
    path: str | PathLike[str] | None = None,
    *,
    title: str | None = None,
    content_only: bool = False,
    player: bool = False,
) -> str | None:
    """Show results on one HTML page: an explanation, several with a picker, or any other results of attnx.

    Args:
        results: a result, or a list of them.
        path: the file to write; by default the page is returned.
        title: by default that of the explanation.
        content_only: open the page without punctuation.
        player: include explained audio for playback, and not only its waveform.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> e = explain(model, tokenizer, "the keys to the cabinet", methods="rollout")
        >>> to_html(e).lower().startswith("<!doctype html>")
        True
    """
    file = None if path is None else file_of(path, PAGES, "to_html")
    shown = Shown.of(results, tuple(kind for name in SECTIONS for kind in SECTIONS[name].kinds), content_only, player)
    sections = {name: data for name in SECTIONS if (data := SECTIONS[name].data(shown)) is not None}
    page = harmless({"results": shown.contents, **sections})
    names = tuple(sections)
    title = None if title is None else harmless(title)
    html: str = template("templates/page").render(
        title=title or _title(page),
        named=title,
        sections=[f"sections/{name}/section.html.jinja" for name in names],
        plain=[text for name in names for text in SECTIONS[name].plain(page)],
        policy=policy(names, player=player),
        style=style(names),
        scripts=scripts(names),
        data=as_json(page),
    )
    if file is None:
        return html
    try:
        with replacing(file) as temporary:
            Path(temporary).write_text(html, encoding="utf-8", newline="\n")
    except OSError as error:
        raise AttnxError(f"cannot write {file}: {error.strerror or error}") from error
    return None


def _title(page: dict[str, Any]) -> str:
    """The title of a page with one result or text."""
    texts = [*page["results"], *page.get("generation", {}).get("texts", ())]
    return str(texts[0]["title"]) if len(texts) == 1 else "Results"


def as_json(value: Any) -> Any:
    """JSON for a `<script>` that is not run: without `<`, `>` and `&` there is no `</script` and no `<!--` in it."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def policy(names: tuple[str, ...], *, player: bool = False) -> str:
    """Nothing is loaded, and only the scripts of this package run, by their hashes."""
    audio_input = "media-src data:; " if player else ""
    scripts_ = " ".join(_hash(script) for script in scripts(names))
    return (
        f"default-src 'none'; script-src {scripts_}; style-src {_hash(style(names))}; img-src data:; {audio_input}"
        "base-uri 'none'; form-action 'none'"
    )


@cache
def style(names: tuple[str, ...]) -> Any:
    """The style of the page and of its sections."""
    from markupsafe import Markup

    styles = ("shared/page.css", *(f"sections/{name}/section.css" for name in names))
    return Markup("\n").join(_file(name) for name in styles if _resource(name).is_file())


@cache
def scripts(names: tuple[str, ...]) -> tuple[Any, ...]:
    """Shared scripts, then those of each section with its `section.js` last, then the start."""
    return (
        *(_file(f"shared/{name}.js") for name in SHARED),
        *(_file(f"sections/{name}/{script}") for name in names for script in _scripts_of(name)),
        _file("shared/start.js"),
    )


@cache
def template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("attnx.views.page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.html.jinja")


def _scripts_of(section: str) -> list[str]:
    names = [
        traversable.name
        for traversable in _resource(f"sections/{section}").iterdir()
        if traversable.name.endswith(".js")
    ]
    return sorted(names, key=lambda name: (name == "section.js", name))


def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup(_resource(name).read_text(encoding="utf-8"))


def _resource(name: str) -> Traversable:
    return files("attnx.views.page").joinpath(name)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


HEIGHT = 680


def notebook_html(shown: Result | list[Explanation]) -> str:
    """Self-contained HTML for `_repr_html_`."""
    if isinstance(shown, Explanation):
        return framed(to_html(shown), result=plain_words(*harmless(content([shown]))))
    several = shown if isinstance(shown, list) else [shown]
    return framed(to_html(shown), "\n\n".join(result.to_text() for result in several))


def framed(page: str | None, text: str = "", result: Any = None) -> str:
    """A page in its frame, and the plain text for viewers that drop frames."""
    plain = {"result": result, "text": harmless(text), "behind": BEHIND_FOR, "against": BEHIND_AGAINST}
    cell: str = template("templates/notebook").render(page=page, height=HEIGHT, **plain)
    return cell
