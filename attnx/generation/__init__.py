"""Generated text explained token by token, in one pass over the finished text."""

from attnx.generation.explain_generation import explain_generation
from attnx.generation.result import GenerationExplanation

__all__ = ["GenerationExplanation", "explain_generation"]
