"""What is wrong on this machine, and what to do about it: `attnx doctor`."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
