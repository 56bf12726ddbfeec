"""Importance measured on the model itself, to hold attention against: one score for each position (§4).

Each reference is a function of a model, its tokenizer, prepared inputs and the classes to explain. Many inputs go in at
once and run in batches of bounded size; what comes out depends on how they were batched only by rounding.
"""

from attnx.references.blankout import blankout
from attnx.references.gradient import gradient

__all__ = ["blankout", "gradient"]
