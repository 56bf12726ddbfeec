"""What is asked of a method: a list of choices one by one, and samples of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

Options: TypeAlias = dict[str, Any]

NORMALIZATIONS = ("receptive_field", "prefix", "column")

CHOICES: list[Options] = [
    {},
    {"layer": 1},
    {"layer": 2},
    {"position": 4},
    {"position": -1},
    {"position": [5, 0, 5]},
    {"layer": 3, "position": [-2]},
    {"head": 2},
    {"head": "all"},
    {"head": "mean"},
    {"head": "max"},
    {"head": "min"},
    {"head": "all", "layer": 2, "position": 3},
    {"residual": 0.0},
    {"residual": 0.3},
    {"residual": 0.3, "position": -1},
    {"residual": 1.0},
    *({"normalize": one} for one in NORMALIZATIONS),
    *({"normalize": one, "position": 4} for one in NORMALIZATIONS),
    *({"normalize": one, "head": "all", "residual": 0.3, "position": [6, 2]} for one in NORMALIZATIONS),
    {"drop_sink": True},
    {"drop_sink": True, "residual": 0.0, "position": -1},
    *({"normalize": one, "drop_sink": True, "residual": 0.3} for one in NORMALIZATIONS),
]

OF_ROLLOUT: list[Options] = [
    {"down_to": 2},
    {"down_to": 3, "position": -1},
    {"down_to": 2, "layer": 3, "head": "all"},
    {"down_to": 2, "normalize": "receptive_field", "residual": 0.3},
]
DISCARDING: list[Options] = [
    {"discard_ratio": 0.0},
    {"discard_ratio": 0.5},
    {"discard_ratio": 0.9, "position": 4},
    {"discard_ratio": 0.5, "keep_position": None},
    {"discard_ratio": 0.9, "keep_position": 3, "head": "max"},
    {"discard_ratio": 0.5, "keep_position": -1, "head": "all", "layer": 2},
    {"discard_ratio": 0.5, "residual": 0.3, "down_to": 2},
    *({"discard_ratio": 0.5, "normalize": one} for one in NORMALIZATIONS),
    {"discard_ratio": 0.5, "drop_sink": True},
]
OF_FLOW: list[Options] = [{"limit": None}, {"limit": 0.5, "position": 4}, {"threads": 1}, {"threads": 2}]
BY_DEFINITION: list[Options] = [{"solver": "networkx", "position": 4}, {"solver": "networkx", "head": 1, "layer": 2}]

_AXES: dict[str, Sequence[Any]] = {
    "layer": (None, 1, 3),
    "position": (None, 4, -1, [6, 2]),
    "head": (None, "all", 1, "max", "min"),
    "residual": (None, 0.0, 0.3),
    "normalize": (None, *NORMALIZATIONS),
    "drop_sink": (False, True),
}
_ALL = [dict(zip(_AXES, chosen, strict=True)) for chosen in product(*_AXES.values())]


def together(first: int, every: int) -> list[Options]:
    """Each so many of all combinations; what is left to the method is not named."""
    return [{name: value for name, value in one.items() if value not in (None, False)} for one in _ALL[first::every]]


STORED_NAMES = {"discard_ratio": "discard", "keep_position": "spare", "all_queries": "maps"}
"""What options are called in the file of numbers, which is older than some of their names."""
_STORED_VALUES = {("head", "all"): "each"}


def stored(options: Options) -> Options:
    """The options by their names and values in the file, those of methods among them."""
    renamed: Options = {}
    for name, value in options.items():
        key = "start" if (name, value) == ("baseline", "zero") else STORED_NAMES.get(name, name)
        renamed[key] = stored(value) if isinstance(value, dict) else _STORED_VALUES.get((name, str(value)), value)
    return renamed


def called(options: Options) -> str:
    """The options as a name.

    >>> called({"layer": 2, "discard_ratio": 0.5})
    'layer=2 discard=0.5'
    """
    return " ".join(f"{name}={value}" for name, value in stored(options).items()) or "defaults"
