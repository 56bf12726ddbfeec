"""Results in files, one format for all kinds: safetensors for arrays, JSON in its header for the rest. No pickle.

As JSON alone, arrays are nested lists, and what is undefined (NaN) is null. Either way the kind and the version of the
format stand beside what a result saves of itself. Nothing in a file is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from attnx.arguments import SAVED, file_of, path_of, replacing
from attnx.errors import AttnxError, FileFormatError
from attnx.results.schema import one_line

FORMAT = 2
READABLE = (1, 2)
_KEY = "attnx"
_OLD_KEYS = {"attnx": "explanation", "attnx.generation": "explained generation"}
"""In format 1 the key told the kind."""
_TENSOR = "attnx.tensor"
_CHECKSUM = "attnx.sha256"


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
        data = json.loads(text, parse_constant=_no_number)
    except Exception as error:  # whatever a text that was tampered with can lead to
        raise FileFormatError(f"{what} attnx wrote: {one_line(error)}") from error
    if isinstance(data, dict):
        data = {"format": _check(cls.kind, data, f"{what} this attnx reads"), **data}
    try:
        return cls.from_dict(data)
    except FileFormatError as error:
        raise FileFormatError(f"{what} attnx wrote: {error}") from error


def save(result: Stored, path: str | PathLike[str]) -> None:
    """Write a safetensors file that `load` reads."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    place = file_of(path, SAVED, "save")
    tensors: dict[str, Any] = {}
    try:
        header = {"kind": result.kind, "format": FORMAT, **plain(_taken_out(result._saved(), tensors))}
        told = json.dumps(header, allow_nan=False)
        with replacing(place) as beside:
            save_file(tensors, beside, metadata={_KEY: told, _CHECKSUM: _checksum(told, tensors)})
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise AttnxError(f"cannot write {place}: {one_line(str(error))[1:-1]}") from error


def load(cls: type[S], path: str | PathLike[str]) -> S:
    """Read what `save` wrote. All of it is checked: its types, what must fit together, and its checksum."""
    from safetensors import SafetensorError, safe_open

    place = path_of(path)
    try:
        with safe_open(place, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = _header(metadata)
            if header is None:
                raise FileFormatError(f"{place} holds no {cls.kind}; give a file that save() wrote")
            version = _check(cls.kind, header, f"{place} holds no {cls.kind} that this attnx reads")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except FileFormatError:
        raise
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{place} is no {cls.kind}: {one_line(str(error))[1:-1]}") from error
    except Exception as error:  # whatever a header that was tampered with can lead to
        raise FileFormatError(f"{place} is a damaged {cls.kind}: {one_line(error)}; save it again") from error
    try:
        made = cls.from_dict(_old(header, tensors) if version == 1 else _put_back(header, tensors))
        if _CHECKSUM in metadata and metadata[_CHECKSUM] != _checksum(metadata.get(_KEY, ""), tensors):
            raise FileFormatError("its checksum is that of other content, so something in it has changed")
    except FileFormatError as error:
        raise FileFormatError(f"{place} is a damaged {cls.kind}: {error}; save it again") from error
    return made


def _checksum(header: str, tensors: Mapping[str, Any]) -> str:
    """Over the header and all numbers: a flipped bit is noticed. Files that were written before have none."""
    found = hashlib.sha256(header.encode())
    for name, numbers in sorted(tensors.items()):
        found.update(json.dumps([name, numbers.dtype.str, numbers.shape]).encode())
        found.update(np.ascontiguousarray(numbers).tobytes())
    return found.hexdigest()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


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


def _put_back(header: dict[str, Any], tensors: Mapping[str, Any]) -> Any:
    """The header with each array in its place; all of them must have one."""
    used = set()

    def filled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if set(value) != {_TENSOR}:
            return {name: filled(one) for name, one in value.items()}
        name = value[_TENSOR]
        used.add(str(name))
        return _tensor(tensors, name)

    whole = filled(header)
    left = sorted(set(tensors) - used)
    if left:
        raise FileFormatError(f"the numbers {one_line(left[0])} belong to nothing")
    return whole


def _tensor(tensors: Mapping[str, Any], name: Any) -> Any:
    if not isinstance(name, str) or name not in tensors:
        raise FileFormatError(f"the numbers {one_line(name)} are missing")
    return tensors[name]


def _old(header: dict[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Format 1: explanations and generations, whose header lists the names of the arrays."""
    lists = {"relevance": ("methods", ""), "references": ("references", "reference:"), "maps": ("maps", "map:")}
    found = {
        field: {name: _tensor(tensors, f"{prefix}{name}") for name in _names(header, listed)}
        for field, (listed, prefix) in lists.items()
        if listed in header
    }
    return {name: value for name, value in header.items() if name != "methods"} | found | _without_maps(found)


def _without_maps(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"maps": None} if "maps" in found and not found["maps"] else {}


def _names(header: Mapping[str, Any], field: str) -> list[str]:
    if not isinstance(header[field], list) or not all(isinstance(name, str) for name in header[field]):
        raise FileFormatError(f"{field} must be names in a list, found {one_line(header[field])}")
    return list(header[field])


def _header(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    for key, kind in _OLD_KEYS.items():
        if key in metadata:
            return {"kind": kind, **json.loads(metadata[key], parse_constant=_no_number)}
    return None


def _check(kind: str, header: dict[str, Any], what: str) -> int:
    """The version, if it is of this kind and can be read; before versions had numbers it was the first."""
    version, found = header.get("format", 1), header.get("kind", kind)
    if type(version) is not int or version not in READABLE:
        expected = " or ".join(map(str, READABLE))
        raise FileFormatError(
            f"{what}: expected format {expected}, found {one_line(version)}; read it with the attnx that wrote it"
        )
    if found != kind:
        raise FileFormatError(f"{what}: it is {_a(found) if isinstance(found, str) else one_line(found)}")
    return version


def _a(kind: str) -> str:
    named = kind if kind.isprintable() and len(kind) < 80 else one_line(kind)
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {named}"
