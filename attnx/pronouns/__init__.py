"""The pronoun probe on masked language models."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
