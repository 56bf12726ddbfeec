"""Relevance from attention: pure functions on a layer × head × n × n array. See `attnx.methods.registry`."""

from attnx.methods.registry import METHODS

__all__ = ["METHODS"]
