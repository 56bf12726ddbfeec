"""The page's sections of explanations, and of results that are tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from attnx.results import SHARES, VIEWS, Array, Explanation, layered, line, record_of, unlayered, weightiest
from attnx.views.page.content import (
    LEVELS,
    PlainTable,
    PlainWord,
    PlainWords,
    Shown,
    correlation,
    image_data,
    kept_layers_and_edges,
    matrices_of,
    number,
    share_of_strongest,
    strongest,
    table_data,
    waveform,
)
from attnx.views.table import places, written
from attnx.views.text import accounts, with_baseline

PLAIN_RESULTS = 50
"""The most results that are shown without scripts."""


def text_section(shown: Shown) -> dict[str, Any] | None:
    """The images, and the shares of source and output; the rest is shared by all sections."""
    if not shown.explanations:
        return None
    each = [
        {
            "image": image_data(explanation, len(shown.explanations)) or waveform(explanation, player=shown.player),
            **_sequences(explanation, content["layers"]),
        }
        for explanation, content in zip(shown.explanations, shown.contents, strict=True)
    ]
    return {"results": each, "view": "content" if shown.content_only else "words"}


def _sequences(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    """The source of an encoder–decoder, and the methods whose share of it is set by the residual alone."""
    if "output" not in explanation.sequences:
        return {"front": None, "split": {}}
    name, length = next(iter(explanation.sequences.items()))
    chains = [method for method in layered(explanation) if not explanation.attributions[method].single_layer]
    split = {method: [explanation.split_by_residual(method, layer) for layer in layers] for method in chains}
    return {"front": {"name": name, "length": length}, "split": split}


def text_plain(page: dict[str, Any]) -> list[PlainWords]:
    """The default method at its last layer, for each of the first results."""
    results = page["results"]
    shown = [plain_words(result) for result in results[:PLAIN_RESULTS]]
    if len(results) > PLAIN_RESULTS:
        more = f"{len(results) - PLAIN_RESULTS} more results need scripts."
        shown[-1] = replace(shown[-1], notes=(*shown[-1].notes, more))
    return shown


def plain_words(result: dict[str, Any]) -> PlainWords:
    """One result without scripts."""
    first = result["first"]
    measured = first in result["references"]
    scores = result["references"][first] if measured else result["relevance"][first][-1]
    sums = [sum(scores[index] for index in word["positions"]) for word in result["words"]]
    most = max([0.0, *map(abs, sums)])
    words = tuple(
        PlainWord(
            word["text"],
            word["gap"],
            round(LEVELS * abs(score) / most) if most > 0 else 0,
            f"{score:.6f}",
            against=first in result["signed"] and score < 0,
        )
        for word, score in zip(result["words"], sums, strict=True)
    )
    answer = result["prediction"] or {"predicted": "", "certainty": None}
    last = result["layers"][-1]
    explained = f"explained position {result['position']} {result['explained']}"
    return PlainWords(
        label=answer["predicted"],
        probability=_percent(answer["certainty"]),
        target=_target(answer),
        headline=f"{first}{', measured on the model' if measured else f' at layer {last}'}, " + explained,
        verdict=result["verdict"],
        words=words,
        notes=tuple(result["notes"]),
    )


def _target(answer: dict[str, Any]) -> str:
    """The explained target where it is not the prediction."""
    label, against = answer.get("label", answer["predicted"]), answer.get("against")
    chosen = f"{label} {_percent(answer['probability'])}".strip() if label != answer["predicted"] else label
    if against is None:
        return chosen if label != answer["predicted"] else ""
    return f"{chosen} against {against}"


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.1%}"


def trust_section(shown: Shown) -> dict[str, Any] | None:
    """The warnings and diagnostics of each result, layer by layer; agreement has its own section."""
    if not shown.explanations:
        return None
    pairs = zip(shown.explanations, shown.contents, strict=True)
    return {"results": [_facts(explanation, content["layers"]) for explanation, content in pairs]}


def _facts(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    kept = [explanation.layers.index(layer) for layer in layers if explanation.layers]
    return {
        "warnings": {name: [_warnings(explanation, name, layer) for layer in layers] for name in layered(explanation)}
        | {name: [_warnings(explanation, name, None)] for name in unlayered(explanation)},
        "between": _between_methods(explanation, layers),
        "diagnostics": {
            method: {
                name: [numbers[index] for index in kept]
                for name, numbers in explanation.attributions[method].diagnostics.items()
                if isinstance(numbers, (list, tuple))
            }
            for method in layered(explanation)
        },
        "accounts": dict(accounts(explanation, explanation.methods)),
        "named": {name: with_baseline(record_of(explanation), name) for name in unlayered(explanation)},
        "sink": None if explanation.sink is None else [explanation.sink[index] for index in kept],
        "sinkName": _sink_name(explanation),
    }


def _sink_name(explanation: Explanation) -> str:
    """What receives the attention counted in `sink`."""
    if explanation.image_size is not None and not explanation.sequences:
        return "patches that may be sinks"
    return "the start of the output" if explanation.sequences else "the first token"


def _warnings(explanation: Explanation, name: str, layer: int | None) -> dict[str, Any]:
    """The summary of a row, its severity, and further warnings."""
    warnings = explanation.remarks(name, layer)
    main = weightiest(warnings)
    levels = [warning.level for warning in main]
    return {
        "verdict": line(warnings),
        "level": "care" if "care" in levels else levels[0],
        "rest": [warning.sentence for warning in warnings if warning not in main and warning.weight >= SHARES],
    }


def _between_methods(explanation: Explanation, layers: list[int]) -> list[dict[str, Any]]:
    """Spearman's correlation of each two methods at each layer, special tokens left out; None where undefined."""
    return [
        {"between": [name, other], "layers": [number(correlation(explanation, name, other, layer)) for layer in layers]}
        for name, other in combinations(layered(explanation), 2)
    ]


def spans_section(shown: Shown) -> dict[str, Any] | None:
    """The parts of each text, by their positions; not on a page of texts without any."""
    named = [[[part.name, list(part.positions)] for part in explanation.spans] for explanation in shown.explanations]
    return {"results": [{"parts": parts} for parts in named]} if any(named) else None


def spans_plain(page: dict[str, Any]) -> list[PlainTable]:
    """A table for each text: the default method at its last layer, summed over each part."""
    pairs = zip(page["results"], page["spans"]["results"], strict=True)
    return [_table(result, spans["parts"]) for result, spans in pairs if spans["parts"]]


def _table(result: dict[str, Any], parts: list[tuple[str, list[int]]]) -> PlainTable:
    first = result["first"]
    scores = result["references"].get(first) or result["relevance"][first][-1]
    sums = [sum(scores[index] for index in positions) for _, positions in parts]
    decimals = places(sums, result["digits"].get(first))
    rows = [[name, written(score, decimals)] for (name, _), score in zip(parts, sums, strict=True)]
    return PlainTable("Parts of the text", [["part", first], *rows])


def canvas_section(shown: Shown) -> dict[str, Any] | None:
    """Layers and graph draw the data of all sections."""
    return {} if shown.explanations else None


def heads_section(shown: Shown) -> dict[str, Any] | None:
    """The rows of each head are in the data of all sections."""
    return {} if any(content["heads"] for content in shown.contents) else None


HEAD_BYTES = 1_500_000
"""For the rows of all heads of all results in a page."""


def head_view_section(shown: Shown) -> dict[str, Any] | None:
    """For each result the rows of each head, within a size limit."""
    heads = [_heads(explanation, HEAD_BYTES / len(shown.explanations)) for explanation in shown.explanations]
    return {"results": heads} if any(data is not None for data in heads) else None


def _heads(explanation: Explanation, room: float) -> dict[str, Any] | None:
    """Layer × head × query × key of each method; `layers` are indices into those of the explanation."""
    maps = {name: array for name, array in matrices_of(explanation).items() if array.ndim == 4}
    if not maps:
        return None
    count, heads, length, _ = next(iter(maps.values())).shape
    layers, edges = kept_layers_and_edges(count, len(maps) * heads * length, length, room)
    if not layers:
        return {"left_out": "the page has no room for the rows of each head; give it a shorter text, or fewer results"}
    chosen = {name: np.asarray(array)[layers] for name, array in maps.items()}
    return {
        "layers": layers,
        "heads": heads,
        "edges": edges,
        "left_out": _left_out(chosen, layers, count, edges, length),
        "relevance": {name: strongest(array, edges) for name, array in chosen.items()},
    }


def _left_out(maps: dict[str, Array], layers: list[int], count: int, edges: int, length: int) -> str:
    names = []
    if len(layers) < count:
        names.append(f"{len(layers)} of {count} layers are in this page")
    if edges < length:
        shares = [share_of_strongest(array, edges) for array in maps.values()]
        names.append(f"of each row its {edges} strongest of {length} weights, {np.mean(shares):.0%} of the whole")
    return "; ".join(names)


def agreement_section(shown: Shown) -> dict[str, Any] | None:
    """Of each result: reference → method → Spearman's correlation at each layer, with signs where both have one."""
    if not any(unlayered(explanation) for explanation in shown.explanations):
        return None
    pairs = zip(shown.explanations, shown.contents, strict=True)
    return {"results": [_with_references(explanation, content["layers"]) for explanation, content in pairs]}


def _with_references(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    return {
        name: {
            method: [number(correlation(explanation, method, name, layer)) for layer in layers]
            for method in layered(explanation)
        }
        for name in unlayered(explanation)
    }


def details_section(shown: Shown) -> dict[str, Any] | None:
    """The provenance of each result, a line for each fact."""
    if not shown.explanations:
        return None
    return {"results": [{"provenance": _flat(explanation.provenance)} for explanation in shown.explanations]}


def _flat(provenance: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for name, value in provenance.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name} ")
        elif value is not None:
            rows.append([f"{prefix}{name}", str(value)])
    return rows


def tables_section(shown: Shown) -> dict[str, Any] | None:
    """Headings, lines of cells, and notes."""
    tables = table_data(block for result in shown.rest for block in VIEWS[result.kind]().blocks(result))
    return {"tables": tables} if tables else None
