"""The result of `explain`: frozen, small, keyed by position, saved and loaded."""

from attnx.explanation.explanation import Explanation, WordScore

__all__ = ["Explanation", "WordScore"]
