"""Methods that run the model: gradients, ablations, layer-wise relevance propagation."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
