"""attnx follows attention through every layer of a Hugging Face model, and says how far to trust what it shows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnx.arguments import checked
from attnx.errors import AttnxError
from attnx.registry import FILLERS

if TYPE_CHECKING:
    from attnx.adapters import Adapter, list_adapters, register_adapter
    from attnx.attention import AttentionTensor
    from attnx.benchmarks import BenchmarkTable
    from attnx.benchmarks.benchmark import benchmark
    from attnx.counterfactuals import SideBySide
    from attnx.counterfactuals.counterfactual import counterfactual
    from attnx.counterfactuals.side_by_side import side_by_side
    from attnx.evaluation import Comparison, Faithfulness, HeadAtlas, Recommendation
    from attnx.evaluation.compare import compare
    from attnx.evaluation.faithfulness import faithfulness
    from attnx.evaluation.head_atlas import head_atlas
    from attnx.evaluation.recommend import recommend
    from attnx.generation import GenerationExplanation, explain_generation
    from attnx.graph import to_networkx
    from attnx.hooks.capture import capture
    from attnx.methods import raw
    from attnx.methods.flow.flow import flow
    from attnx.methods.rollout import rollout
    from attnx.pipeline.explain import explain
    from attnx.results import Explanation
    from attnx.runs import Run
    from attnx.runs.explain_dataset import explain_dataset
    from attnx.similarity import Similarity, explain_similarity
    from attnx.views import to_html
    from attnx.word_alignment import Alignment, alignment
    from attnx.word_alignment.align import align

__version__ = "0.2.0"

_ON_DEMAND = {
    "Alignment": "attnx.word_alignment.result",
    "Adapter": "attnx.adapters.adapter",
    "AttentionTensor": "attnx.attention.tensor",
    "Comparison": "attnx.evaluation.evaluation_table",
    "Explanation": "attnx.results.explanation",
    "Faithfulness": "attnx.evaluation.evaluation_table",
    "GenerationExplanation": "attnx.generation.result",
    "HeadAtlas": "attnx.evaluation.head_atlas",
    "Recommendation": "attnx.evaluation.evaluation_table",
    "Run": "attnx.runs.run",
    "BenchmarkTable": "attnx.benchmarks.result",
    "SideBySide": "attnx.counterfactuals.side_by_side",
    "Similarity": "attnx.similarity.result",
    "list_adapters": "attnx.adapters.families",
    "align": "attnx.word_alignment.align",
    "alignment": "attnx.word_alignment.align",
    "capture": "attnx.hooks.capture",
    "compare": "attnx.evaluation.compare",
    "counterfactual": "attnx.counterfactuals.counterfactual",
    "explain": "attnx.pipeline.explain",
    "explain_dataset": "attnx.runs.explain_dataset",
    "explain_generation": "attnx.generation.explain",
    "explain_similarity": "attnx.similarity.explain",
    "faithfulness": "attnx.evaluation.faithfulness",
    "flow": "attnx.methods.flow.flow",
    "head_atlas": "attnx.evaluation.head_atlas",
    "benchmark": "attnx.benchmarks.benchmark",
    "raw": "attnx.methods.rollout",
    "recommend": "attnx.evaluation.recommend",
    "register_adapter": "attnx.adapters.families",
    "rollout": "attnx.methods.rollout",
    "side_by_side": "attnx.counterfactuals.side_by_side",
    "to_html": "attnx.views.page.page",
    "to_networkx": "attnx.graph.export",
}
"""Loaded when it is first asked for: torch takes seconds, and Ctrl-C meanwhile must find the command line running."""

# Registries of the results, filled when a result is first displayed.
FILLERS["view"] = "attnx.view_registry"
FILLERS["section"] = "attnx.page_sections"


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'attnx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


@checked
def load_demo() -> tuple[Any, Any]:
    """(model, tokenizer) of the small trained model that ships with attnx: is the verb to come singular or plural?

    >>> model, tokenizer = load_demo()
    >>> tokenizer.tokenize("the keys")
    ['the', 'keys']
    """
    from attnx.demo_models import load_demo as load

    return load()


__all__ = [
    "Adapter",
    "Alignment",
    "AttentionTensor",
    "AttnxError",
    "BenchmarkTable",
    "Comparison",
    "Explanation",
    "Faithfulness",
    "GenerationExplanation",
    "HeadAtlas",
    "Recommendation",
    "Run",
    "SideBySide",
    "Similarity",
    "align",
    "alignment",
    "benchmark",
    "capture",
    "compare",
    "counterfactual",
    "explain",
    "explain_dataset",
    "explain_generation",
    "explain_similarity",
    "faithfulness",
    "flow",
    "head_atlas",
    "list_adapters",
    "load_demo",
    "raw",
    "recommend",
    "register_adapter",
    "rollout",
    "side_by_side",
    "to_html",
    "to_networkx",
]
