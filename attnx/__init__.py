"""attnx follows attention through every layer of a Hugging Face model, and says how far to trust what it shows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnx.arguments import checked
from attnx.errors import AttnxError
from attnx.registry import FILLERS

if TYPE_CHECKING:
    from attnx.attention.tensor import AttentionTensor
    from attnx.capturing.capture import capture
    from attnx.comparison.align import align, alignment
    from attnx.comparison.compare import compare
    from attnx.comparison.faithfulness import faithfulness
    from attnx.comparison.head_atlas import head_atlas
    from attnx.comparison.recommend import recommend
    from attnx.data.dataset import explain_dataset
    from attnx.data.run import Run
    from attnx.explaining.edit import edit
    from attnx.explaining.explain import explain
    from attnx.explaining.generation import explain_generation
    from attnx.explaining.similarity import explain_similarity
    from attnx.graph.export import to_networkx
    from attnx.inputs.adapter import Adapter
    from attnx.inputs.families import adapters, register_adapter
    from attnx.methods.flow.flow import flow
    from attnx.methods.raw import raw
    from attnx.methods.rollout import rollout
    from attnx.render.page.page import to_html
    from attnx.results.atlas import HeadAtlas
    from attnx.results.comparison import Comparison
    from attnx.results.explanation import Explanation
    from attnx.results.faithfulness import Faithfulness
    from attnx.results.generation import GenerationExplanation
    from attnx.results.recommendation import Recommendation
    from attnx.results.side_by_side import SideBySide, side_by_side
    from attnx.results.similarity import Similarity
    from attnx.results.truth import Truth
    from attnx.results.word_alignment import Alignment
    from attnx.truth.measure import measure_truth

__version__ = "0.2.0"

_ON_DEMAND = {
    "Alignment": "results.word_alignment",
    "Adapter": "inputs.adapter",
    "AttentionTensor": "attention.tensor",
    "Comparison": "results.comparison",
    "Explanation": "results.explanation",
    "Faithfulness": "results.faithfulness",
    "GenerationExplanation": "results.generation",
    "HeadAtlas": "results.atlas",
    "Recommendation": "results.recommendation",
    "Run": "data.run",
    "Truth": "results.truth",
    "SideBySide": "results.side_by_side",
    "Similarity": "results.similarity",
    "adapters": "inputs.families",
    "align": "comparison.align",
    "alignment": "comparison.align",
    "capture": "capturing.capture",
    "compare": "comparison.compare",
    "edit": "explaining.edit",
    "explain": "explaining.explain",
    "explain_dataset": "data.dataset",
    "explain_generation": "explaining.generation",
    "explain_similarity": "explaining.similarity",
    "faithfulness": "comparison.faithfulness",
    "flow": "methods.flow.flow",
    "head_atlas": "comparison.head_atlas",
    "measure_truth": "truth.measure",
    "raw": "methods.raw",
    "recommend": "comparison.recommend",
    "register_adapter": "inputs.families",
    "rollout": "methods.rollout",
    "side_by_side": "results.side_by_side",
    "to_html": "render.page.page",
    "to_networkx": "graph.export",
}
"""Loaded when it is first asked for: torch takes seconds, and Ctrl-C meanwhile must find the command line running."""

FILLERS["view"] = "attnx.render.views"  # the results' socket, filled when a result is first looked at


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(f"attnx.{_ON_DEMAND[name]}"), name)
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
    from attnx.tasks.verb_number.checkpoint import load_demo as load

    return load()


__all__ = [
    "Adapter",
    "Alignment",
    "AttentionTensor",
    "AttnxError",
    "Comparison",
    "Explanation",
    "Faithfulness",
    "GenerationExplanation",
    "HeadAtlas",
    "Recommendation",
    "Run",
    "SideBySide",
    "Similarity",
    "Truth",
    "adapters",
    "align",
    "alignment",
    "capture",
    "compare",
    "edit",
    "explain",
    "explain_dataset",
    "explain_generation",
    "explain_similarity",
    "faithfulness",
    "flow",
    "head_atlas",
    "load_demo",
    "measure_truth",
    "raw",
    "recommend",
    "register_adapter",
    "rollout",
    "side_by_side",
    "to_html",
    "to_networkx",
]
