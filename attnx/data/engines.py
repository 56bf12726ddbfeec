"""The table of engines: this process, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attnx.data.engine import Engine, OneProcess
from attnx.errors import ChoiceError, whole_number
from attnx.registry import unknown


def engine_of(asked: Any, workers: int | None = None, num_gpus: float = 0) -> Engine:
    """By name, by the address of a cluster, or an engine of one's own."""
    workers = None if workers is None else whole_number("workers", workers)
    if asked is not None and not isinstance(asked, str):
        if not callable(getattr(asked, "run", None)):
            raise ChoiceError(f"engine is 'ray', the address of a cluster, or an object with run(…); found {asked!r}")
        made: Engine = asked
        return made
    if asked is not None and asked.startswith("ray://"):
        return _ray(asked, workers, num_gpus)
    if asked not in _ENGINES:
        raise ChoiceError(
            unknown("engine", asked, [one for one in _ENGINES if one]) + "; or an address, ray://head:10001"
        )
    return _ENGINES[asked](None, workers, num_gpus)


def _here(address: str | None, workers: int | None, num_gpus: float) -> Engine:
    if workers not in (None, 1):
        raise ChoiceError(f"workers={workers} asked, but one process has one; engine='ray' has more")
    return OneProcess()


def _ray(address: str | None, workers: int | None, num_gpus: float) -> Engine:
    from attnx.data.ray_engine import Ray  # only for those who have a cluster

    return Ray(address, workers=workers, num_gpus=num_gpus)


_ENGINES: Mapping[str | None, Callable[[str | None, int | None, float], Engine]] = {
    None: _here,
    "process": _here,
    "ray": _ray,
}
