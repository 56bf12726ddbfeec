"""attnx follows attention through every layer of a Hugging Face model, and says how far to trust what it shows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnx.adapters import Adapter, adapters, register_adapter
from attnx.attention import AttentionTensor
from attnx.capture import capture
from attnx.errors import AttnxError
from attnx.explain import explain
from attnx.explanation import Explanation
from attnx.methods.flow import flow
from attnx.methods.raw import raw
from attnx.methods.rollout import rollout
from attnx.render.graph import to_networkx

if TYPE_CHECKING:
    from attnx.atlas import HeadAtlas, head_atlas
    from attnx.comparison import Comparison, Faithfulness, compare, faithfulness
    from attnx.generation import GenerationExplanation, explain_generation
    from attnx.render.html import to_html

__version__ = "0.1.0"

_ON_DEMAND = dict.fromkeys(("Comparison", "Faithfulness", "compare", "faithfulness"), "attnx.comparison")
_ON_DEMAND |= dict.fromkeys(("HeadAtlas", "head_atlas"), "attnx.atlas")
_ON_DEMAND |= dict.fromkeys(("GenerationExplanation", "explain_generation"), "attnx.generation")
_ON_DEMAND |= {"to_html": "attnx.render.html"}
"""What not every user needs, some of it with scipy, which takes longer to load than all the rest."""


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'attnx' has no attribute {name!r}")


def load_demo() -> tuple[Any, Any]:
    """(model, tokenizer) of the small trained model that ships with attnx: is the verb to come singular or plural?"""
    from attnx.tasks.verb_number import load_demo as load

    return load()


__all__ = [
    "Adapter",
    "AttentionTensor",
    "AttnxError",
    "Comparison",
    "Explanation",
    "Faithfulness",
    "GenerationExplanation",
    "HeadAtlas",
    "adapters",
    "capture",
    "compare",
    "explain",
    "explain_generation",
    "faithfulness",
    "flow",
    "head_atlas",
    "load_demo",
    "raw",
    "register_adapter",
    "rollout",
    "to_html",
    "to_networkx",
]
