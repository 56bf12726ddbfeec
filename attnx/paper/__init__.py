"""Tables and figures of Abnar and Zuidema (2020)."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
