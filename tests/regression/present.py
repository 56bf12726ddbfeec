"""What the cases need of attnx beyond its public names: where a module moves or a word changes, this file follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor

import attnx
from attnx.attention import layers as layers
from attnx.attribution import REFERENCES
from attnx.benchmarks.suites import find_patch as find
from attnx.demo_models import generate as pictures
from attnx.demo_models.planted_patch import load_demo as planted_patch_demo
from attnx.demo_models.verb_number_data import generate as beginnings
from attnx.graph import sink_share
from attnx.methods import tied_share
from attnx.methods.flow import column_bound, minimum_cut, saturated_share
from attnx.paper import reviews, table1, table2, table3
from attnx.paper.sentences import prepare
from attnx.paper.subject import subject
from attnx.paper.table import PaperTable
from attnx.paper.tables import CORRECTED, PUBLISHED, PUBLISHED_TABLE_3
from attnx.pipeline import options as plan
from attnx.pronouns import Sentence, written_out
from attnx.pronouns import probe_each as probe_pronouns
from attnx.pronouns import run as run_pronouns
from attnx.pronouns.probe import probe as probe_pronoun
from attnx.pronouns.report import BASELINES, PronounReport
from attnx.pronouns.result import Probe as PronounProbe

__all__ = [
    "BASELINES",
    "PaperTable",
    "PronounProbe",
    "PronounReport",
    "Sentence",
    "beginnings",
    "column_bound",
    "find",
    "minimum_cut",
    "pictures",
    "planted_patch_demo",
    "prepare",
    "probe_pronoun",
    "probe_pronouns",
    "reviews",
    "run_pronouns",
    "saturated_share",
    "sink_share",
    "subject",
    "table1",
    "table2",
    "table3",
    "tied_share",
    "written_out",
]


OF_TABLE_2, OF_TABLE_3 = (
    (replace(published, gradient_reduction="norm"), CORRECTED) for published in (PUBLISHED, PUBLISHED_TABLE_3)
)
"""Both protocols, the published one with norms of gradients: its signed sums are 0 but for rounding, and so have no
order that could be compared."""


def layered(one: Any) -> list[str]:
    """The methods with layers, in the order of 0.2: that of the paper where nobody chose."""
    names = [name for name, scores in one.attributions.items() if scores.layers is not None]
    return ["raw", "rollout", "flow"] if names == ["rollout", "raw", "flow"] else names


def unlayered(one: Any) -> list[str]:
    return [name for name, scores in one.attributions.items() if scores.layers is None]


def default(one: Any) -> str:
    """What 0.2 meant where no method is named."""
    first, names = one.methods[0], layered(one)
    return str(first if first not in names else "rollout" if "rollout" in names else first)


def tied(one: Any, method: str, layer: int) -> float:
    return float(one.tied(method, layer))


def saturation(one: Any) -> Any:
    scores = one.attributions.get("flow")
    return None if scores is None else scores.diagnostics.get("saturation")


def matrices(one: Any) -> dict[str, Any]:
    """Method → the rows of all queries, where they were requested."""
    each = {name: one.attributions[name].matrices for name in layered(one)}
    return {name: rows for name, rows in each.items() if rows is not None}


def explain(model: Any, processor: Any, given: Any, **options: Any) -> Any:
    """With no references but those that are asked for: what attnx adds by itself has other tests."""
    return attnx.explain(model, processor, given, **{"references": (), **options})


def held(weights: Tensor, visible: Tensor) -> Any:
    """Attention made by hand, with the mask that its queries had: layer × head × n × n, and layer × n × n."""
    return attnx.AttentionTensor.of(weights, visible)


def merged(model: Any, how: str, **inputs: Any) -> Any:
    """Attention whose heads were merged as they arrived."""
    return attnx.capture(model, head=how, **inputs)


def computed(model: Any, **inputs: Any) -> Any:
    """Attention that is computed from queries and keys where it is read."""
    return attnx.capture(model, held=False, **inputs)


def visible(attention: Any) -> Any:
    """layer × query × key: where the mask let a query look."""
    return attention.visible


def modules(attention: Any) -> tuple[str, ...]:
    """The modules whose attention was seen, from the input up."""
    return attention.modules


def values_and_projections(model: Any, **inputs: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Per layer, what was mixed, and the matrix that it goes through."""
    attention = attnx.capture(model, extras=("values", "projections"), **inputs)
    return attention.values, attention.projections


def reference_names() -> list[str]:
    """The references whose numbers are in the file, each of which there must be."""
    names = (
        "blankout",
        "feature_ablation",
        "gradient",
        "gradient_shap",
        "input_x_gradient",
        "integrated_gradients",
        "occlusion",
    )
    return [name for name in names if REFERENCES[name]]


@contextmanager
def few_rows_at_once() -> Iterator[None]:
    """Computed attention is read in blocks of a few rows."""
    with patch.object(layers, "MAX_BLOCK_ELEMENTS", 120):
        yield


@contextmanager
def everything_is_long() -> Iterator[None]:
    """`explain` takes the road of long inputs for anything above four positions."""
    with patch.object(plan, "LONG_INPUT", 4), few_rows_at_once():
        yield


def subject_rows(table: Any) -> dict[str, tuple[Any, ...]]:
    """Predictions and measure → the four summaries of where relevance lies."""
    return {
        f"{kind} {measure}": tuple(table.share(measure, part, kind) for part in table.columns)
        for kind in table.predictions
        for measure in table.methods
    }


def written_reviews(model: Any, tokenizer: Any, folder: Path) -> Any:
    """Four labelled sentences in the manner of SST-2."""
    lines = ["label\tsentence", "1\ta witty film", "0\tit was a dull and bad movie", "1\tthe book is gorgeous !"]
    path = folder / "reviews.tsv"
    path.write_text("\n".join([*lines, "0\tbad , bad film"]) + "\n")
    return reviews(model, tokenizer, path, 4)
