"""The graph of attention: edges with residual, sink and head choice, and what an edge weighs."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
