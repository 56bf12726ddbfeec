"""Results in files, one format for all kinds: safetensors for arrays, JSON in its header for the rest. No pickle.

As JSON alone, arrays are nested lists, and what is undefined (NaN) is null. Either way the kind and the version of the
format stand beside what a result saves of itself. Nothing in a file is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from attnx.answer.prediction import Prediction
from attnx.arguments import SAVED, file_of, path_of
from attnx.errors import AttnxError, FileFormatError
from attnx.inputs.positions import Position, Word

FORMAT = 2
READABLE = (1, 2)
_KEY = "attnx"
_OLD_KEYS = {"attnx": "explanation", "attnx.generation": "explained generation"}
"""In format 1 the key told the kind."""
_TENSOR = "attnx.tensor"


class Stored(Protocol):
    """What a kind of result tells of itself."""

    kind: ClassVar[str]

    def _saved(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self: ...


S = TypeVar("S", bound=Stored)


def to_json(result: Stored, indent: int | None = None) -> str:
    """Everything, all digits, undefined as null."""
    written = {"kind": result.kind, "format": FORMAT, **plain(result._saved())}
    return json.dumps(written, ensure_ascii=False, allow_nan=False, indent=indent)


def from_json(cls: type[S], text: str) -> S:
    """Read what `to_json` wrote."""
    what = f"not {_a(cls.kind)} that"
    try:
        data = json.loads(text)
        if isinstance(data, dict):
            _check(cls.kind, data, f"{what} this attnx reads")
        return cls.from_dict(data)
    except FileFormatError:
        raise
    except Exception as error:  # whatever a text that was tampered with can lead to
        raise FileFormatError(f"{what} attnx wrote: {error!r}") from error


def save(result: Stored, path: str | PathLike[str]) -> None:
    """Write a safetensors file that `load` reads."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    place = file_of(path, SAVED, "save")
    tensors: dict[str, Any] = {}
    header = {"kind": result.kind, "format": FORMAT, **plain(_taken_out(result._saved(), tensors))}
    try:
        save_file(tensors, place, metadata={_KEY: json.dumps(header, allow_nan=False)})
    except (SafetensorError, OSError) as error:
        raise AttnxError(f"cannot write {place}: {error}") from error


def load(cls: type[S], path: str | PathLike[str]) -> S:
    """Read what `save` wrote."""
    from safetensors import SafetensorError, safe_open

    place = path_of(path)
    try:
        with safe_open(place, framework="numpy") as file:
            header = _header(file.metadata() or {})
            if header is None:
                raise FileFormatError(f"{place} holds no {cls.kind}; give a file that save() wrote")
            _check(cls.kind, header, f"{place} holds no {cls.kind} that this attnx reads")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
        return cls.from_dict(_old(header, tensors) if header["format"] == 1 else _put_back(header, tensors))
    except FileFormatError:
        raise
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{place} is no {cls.kind}: {error}") from error
    except Exception as error:  # whatever a header that was tampered with can lead to
        raise FileFormatError(f"{place} is a damaged {cls.kind}: {error!r}; save it again") from error


def plain(value: Any) -> Any:
    """Lists, dictionaries, numbers and strings alone, ready for JSON; NaN is None.

    >>> plain({"scores": np.array([0.5, np.nan]), "layers": (1, 2)})
    {'scores': [0.5, None], 'layers': [1, 2]}
    """
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist() if not np.isnan(value).any() else plain(value.tolist())
    if isinstance(value, (float, np.generic)):
        number = value.item() if isinstance(value, np.generic) else value
        return None if number != number else number
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return [plain(one) for one in value]


def array(values: Any, dtype: Any = np.float64) -> Any:
    """What `plain` made a list of, or what a file kept, as an array; None is NaN."""
    return np.array(values, dtype=dtype)


def position_of(data: Mapping[str, Any]) -> Position:
    """A position as it was saved."""
    box = data.get("box")
    return Position(**{**data, "box": None if box is None else tuple(box)})


def word_of(data: Mapping[str, Any]) -> Word:
    """A word as it was saved."""
    return Word(**{**data, "positions": tuple(data["positions"])})


def prediction_of(data: Mapping[str, Any]) -> Prediction:
    """A prediction as it was saved."""
    return Prediction(**{**data, "labels": tuple(data["labels"]), "logits": tuple(data["logits"])})


def _taken_out(value: Any, tensors: dict[str, Any], path: str = "") -> Any:
    """The same with each array in `tensors`, and its name there in its place."""
    if isinstance(value, np.ndarray):
        tensors[path] = np.ascontiguousarray(value)
        return {_TENSOR: path}
    if isinstance(value, Mapping):
        # Names may have slashes; as in a JSON pointer they are told apart from those of the path.
        steps = {name: f"{path}/{name.replace('~', '~0').replace('/', '~1')}".lstrip("/") for name in value}
        return {name: _taken_out(one, tensors, steps[name]) for name, one in value.items()}
    return value


def _put_back(value: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {name: _put_back(one, tensors) for name, one in value.items()}
    return value


def _old(header: dict[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Format 1: explanations and generations, whose header lists the names of the arrays."""
    return header | {
        "relevance": {name: tensors[name] for name in header["methods"]},
        "references": {name: tensors[f"reference:{name}"] for name in header.get("references", ())},
        "maps": {name: tensors[f"map:{name}"] for name in header.get("maps", ())} or None,
    }


def _header(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    for key, kind in _OLD_KEYS.items():
        if key in metadata:
            return {"kind": kind, **json.loads(metadata[key])}
    return None


def _check(kind: str, header: dict[str, Any], what: str) -> None:
    """Whether it is of this kind and of a version that can be read; before versions had numbers it was the first."""
    version, found = header.get("format", 1), header.get("kind", kind)
    if version not in READABLE:
        expected = " or ".join(map(str, READABLE))
        raise FileFormatError(
            f"{what}: expected format {expected}, found {version!r}; read it with the attnx that wrote it"
        )
    if found != kind:
        raise FileFormatError(f"{what}: it is {_a(str(found))}")


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
