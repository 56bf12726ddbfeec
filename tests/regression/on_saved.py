"""Files of attnx 0.1.0 in `saved/`: they load, and say what they said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import attnx
from tests.regression.group import Group, Outcome
from tests.regression.on_explanations import facts
from tests.regression.on_paper import of_probe
from tests.regression.on_studies import of_generation
from tests.regression.present import PronounProbe

FOLDER = Path(__file__).parent / "saved"


def groups() -> Iterator[Group]:
    for name, read in _READERS.items():
        yield Group(f"saved/{name}", partial(read, FOLDER / name))


def _explanation(path: Path) -> dict[str, Outcome]:
    return facts(attnx.Explanation.load(path))


def _generation(path: Path) -> dict[str, Outcome]:
    return of_generation(attnx.GenerationExplanation.load(path))


def _probes(path: Path) -> dict[str, Outcome]:
    """The first line says what the run is of; each other line is a sentence."""
    head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    found: dict[str, Outcome] = {"kind": f"{head['kind']}, format {head['format']}"}
    for line in lines:
        sentence = line.pop("sentence")
        probe = PronounProbe.from_dict({**line, "provenance": {}})
        found |= {f"{sentence}: {fact}": value for fact, value in of_probe(probe).items()}
    return found


_READERS: dict[str, Callable[[Path], dict[str, Outcome]]] = {
    "text.safetensors": _explanation,
    "heads_and_maps.safetensors": _explanation,
    "decoder.safetensors": _explanation,
    "image.safetensors": _explanation,
    "generation.safetensors": _generation,
    "pronouns.jsonl": _probes,
}
