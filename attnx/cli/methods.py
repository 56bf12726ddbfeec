"""`attnx methods`: all methods and references, what each is about, needs and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnx.methods.listing import Listed


def methods_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all there is to know.")] = False,
) -> None:
    """List what --method and --reference take: what each is about, and what it costs."""
    import json

    # Loaded here, so that --help answers at once.
    from attnx.methods.listing import listed_methods
    from attnx.references.listing import listed_references

    rows = (*listed_methods(), *listed_references())
    print(json.dumps([row.to_dict() for row in rows], ensure_ascii=False) if as_json else text(rows))


def text(rows: Sequence[Listed]) -> str:
    """A line each, methods before references."""
    from attnx.graph.registry import WEIGHTINGS
    from attnx.render.columns import aligned

    lines = [["", "about", "long", "heads", "costs"]]
    for kind in dict.fromkeys(row.kind for row in rows):
        lines.append([f"{kind}s", "", "", "", ""])
        lines += [
            [f"  {row.name}", row.about, _yes(row.long_inputs), _yes(row.heads), row.costs]
            for row in rows
            if row.kind == kind
        ]
    edges = aligned([[f"  {name}", WEIGHTINGS[name].paper] for name in WEIGHTINGS.names()])
    return f"{aligned(lines)}\n\nrollout:NAME and flow:NAME run on other edges; NAME is one of\n{edges}"


def _yes(one: bool) -> str:
    return "yes" if one else "no"
