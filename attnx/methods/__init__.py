"""Methods on the graph: raw attention, rollout, flow and their normalization."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
