"""The attention of one input: layer × head × query × key, materialized or computed by rows."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
