"""The methods by name, as `explain` and the command line know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from attnx.methods.flow import flow
from attnx.methods.raw import raw
from attnx.methods.rollout import rollout
from attnx.registry import Registry

Method: TypeAlias = Callable[..., Any]
"""`method(attention, *, layer=None, position=None, head=None, residual=…)` → layer × query × input."""

METHODS: Registry[Method] = Registry("method")
BY_ROWS = {"raw", "rollout"}
"""Methods that read rows of attention and products with them, and never a whole map: they work on a `LongAttention`."""

for _method in (raw, rollout, flow):
    METHODS.add(_method.__name__, _method)
