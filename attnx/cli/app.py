"""The application: all commands in their panels, with examples; and the small ones: methods, demo, doctor."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer

import attnx
from attnx.cli import pronouns, reproduce
from attnx.cli.data import run_command, show_command
from attnx.cli.evaluate import (
    benchmark_command,
    compare_command,
    faithfulness_command,
    head_atlas_command,
    recommend_command,
)
from attnx.cli.explain import explain_command
from attnx.cli.generate import align_command, generate_command
from attnx.cli.options import OUTPUT, fields_as_parameters, option

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(flag: bool) -> None:
    if flag:
        typer.echo(f"attnx {attnx.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Explain Hugging Face models by their attention, and check how far to trust the explanation."""


def methods_command(
    as_json: Annotated[bool, option("--json", "Print JSON with all details.", OUTPUT)] = False,
) -> None:
    """List all methods: what they are about, what they can be applied to, and what they cost."""
    # Loaded here, so that --help answers at once.
    from attnx.attribution import listed_references
    from attnx.graph import EDGE_WEIGHTS
    from attnx.methods import listed_methods
    from attnx.views import aligned

    rows = (*listed_methods(), *listed_references())
    if as_json:
        print(json.dumps([row.to_dict() for row in rows], ensure_ascii=False))
        return
    lines = [["", "about", "long", "heads", "costs"]]
    for kind in dict.fromkeys(row.kind for row in rows):
        lines.append([f"{kind}s", "", "", "", ""])
        for row in rows:
            if row.kind == kind:
                flags = ["yes" if flag else "no" for flag in (row.long_inputs, row.heads)]
                lines.append([f"  {row.name}", row.about, *flags, row.costs])
    edges = aligned([[f"  {name}", EDGE_WEIGHTS[name].paper] for name in EDGE_WEIGHTS.names()])
    print(
        f"{aligned(lines)}\n\nrollout:NAME and flow:NAME use other edge weights than attention; NAME is one of\n{edges}"
    )


def demo_command(
    model: Annotated[
        list[str] | None,
        option("--model -m NAME", "A directory or hub id to offer besides the models that ship; repeatable.", "Input"),
    ] = None,
    host: Annotated[str, option("--host NAME", "The address to listen on (default: this machine only).")] = "127.0.0.1",
    port: Annotated[int | None, option("--port N", "The port (default: the first free one from 7860).")] = None,
    browser: Annotated[bool, option("--browser", "Open the page in a browser.")] = False,
) -> None:
    r"""Serve a page to explain texts and images in a browser. Requires Gradio: pip install "attnx\[demo]"."""
    # Loaded here, so that --help answers at once.
    from attnx.demo import serve
    from attnx.pipeline import hush

    hush()
    serve(model or (), host, port, browser=browser)


def doctor_command(
    as_json: Annotated[bool, option("--json", "Print JSON for a bug report.", OUTPUT)] = False,
) -> None:
    """Check this machine and installation. Exit code 1 if a plain attnx explain does not work here."""
    from attnx import doctor

    findings = doctor.examine()
    print(doctor.to_json(findings) if as_json else doctor.to_text(findings))
    if not doctor.explain_works(findings):
        raise typer.Exit(1)


COMMANDS: dict[str, dict[Callable[..., None], tuple[str, ...]]] = {
    "Explain": {
        explain_command: (
            'attnx explain "the keys to the cabinet"',
            'attnx explain "a witty film" --model my-classifier --method rollout --html page.html',
            "attnx explain --image photo.png --model my-vision-model --output overlay.png",
            'attnx explain "a witty film" --model my-classifier --replace witty=dull',
        ),
        generate_command: (
            'attnx generate "k3 v7 k1 v2 k3"',
            'attnx generate "Once upon a time" --model my-decoder --max-new-tokens 10 --html page.html',
        ),
        align_command: (
            "attnx align --model my-translator --source-file source.txt --target-file target.txt",
            "attnx align --model dates --source-file source.txt --generated generated.txt",
        ),
    },
    "Evaluate methods": {
        compare_command: (
            'attnx compare "the key to the cabinets" "the keys to the cabinet"',
            "attnx compare --data reviews.csv --column text --limit 100 --model my-classifier --output table.md",
        ),
        faithfulness_command: (
            'attnx faithfulness "the key to the cabinets" "the keys to the cabinet"',
            "attnx faithfulness --data reviews.csv --column text --model my-classifier --html page.html",
        ),
        recommend_command: ("attnx recommend --data reviews.csv --column text --model my-classifier",),
        head_atlas_command: ('attnx head-atlas "the key to the cabinets" --html heads.html',),
        benchmark_command: (
            "attnx benchmark --suite recall --rows 20",
            "attnx benchmark --model my-decoder --data cues.tsv --html page.html",
        ),
    },
    "Data sets": {
        run_command: (
            "attnx run --data reviews.csv --column text --model my-classifier --run-dir reviews/",
            "attnx run --status reviews/",
        ),
        show_command: ("attnx show reviews/", "attnx show reviews/ --html page.html"),
    },
    "Tools": {
        methods_command: ("attnx methods",),
        demo_command: ("attnx demo --model my-classifier --browser",),
        doctor_command: ("attnx doctor", "attnx doctor --json > report.json"),
    },
}
"""Panel → the commands in it, with examples."""

for _panel, _commands in COMMANDS.items():
    for _function, _examples in _commands.items():
        _name = _function.__name__.removesuffix("_command").replace("_", "-")
        _epilog = "\n\n".join(("Examples:", *_examples))
        app.command(_name, rich_help_panel=_panel, epilog=_epilog)(fields_as_parameters(_function))
app.add_typer(pronouns.app, name="probe", rich_help_panel="Research")
app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Research")
