"""Attention flow: relevance of an input as the maximum flow that reaches it through all layers (§3.2)."""

from attnx.methods.flow.flow import flow

__all__ = ["flow"]
