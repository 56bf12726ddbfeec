"""One forward pass, observed: the attention is captured and the model is left untouched."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
