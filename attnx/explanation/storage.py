"""Explanations on disk: safetensors for the numbers, JSON in its header for the rest. No pickle."""

from __future__ import annotations

import json
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import AttnxError, FileFormatError
from attnx.positions import Position, Word
from attnx.prediction import Prediction

if TYPE_CHECKING:
    from attnx.explanation import Explanation

FORMAT = 1
_KEY = "attnx"
_REFERENCE = "reference:"
_MAP = "map:"


def save(explanation: Explanation, path: str | PathLike[str]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    header = replace(explanation, maps=None).to_dict()
    del header["relevance"]
    # The order of methods is kept here: safetensors sorts its tensors by size and name.
    header |= {
        "format": FORMAT,
        "methods": list(explanation.methods),
        "references": list(explanation.references),
        "maps": list(explanation.maps or ()),
    }
    numbers = {name: np.ascontiguousarray(scores) for name, scores in explanation.relevance.items()}
    numbers |= {_REFERENCE + name: np.ascontiguousarray(one) for name, one in explanation.references.items()}
    numbers |= {_MAP + name: np.ascontiguousarray(one) for name, one in (explanation.maps or {}).items()}
    try:
        save_file(numbers, fspath(path), metadata={_KEY: json.dumps(header)})
    except (SafetensorError, OSError) as error:
        raise AttnxError(f"cannot write {fspath(path)}: {error}") from error


def load(path: str | PathLike[str]) -> Explanation:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(fspath(path), framework="numpy") as file:
            header = _header((file.metadata() or {}).get(_KEY), path)
            relevance = {name: file.get_tensor(name) for name in header["methods"]}
            references = {name: file.get_tensor(_REFERENCE + name) for name in header.get("references", ())}
            maps = {name: file.get_tensor(_MAP + name) for name in header.get("maps", ())}
        return _explanation(header, relevance, references, maps or None)
    except FileFormatError:
        raise
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{fspath(path)} is no saved explanation: {error}") from error
    except Exception as error:  # whatever a header that was tampered with can lead to
        raise FileFormatError(f"{fspath(path)} is a damaged explanation: {error!r}; save it again") from error


def _header(text: str | None, path: str | PathLike[str]) -> dict[str, Any]:
    if text is None:
        raise FileFormatError(
            f"{fspath(path)} is a safetensors file but no saved explanation; give one that e.save() wrote"
        )
    try:
        header: dict[str, Any] = json.loads(text)
        version = header["format"]
        header["methods"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{fspath(path)} has a damaged header: {error!r}; save it again") from error
    if version != FORMAT:
        raise FileFormatError(
            f"{fspath(path)} has format {version}, this attnx reads {FORMAT}; load it with the attnx that wrote it"
        )
    return header


def _explanation(
    header: dict[str, Any], relevance: dict[str, Any], references: dict[str, Any], maps: dict[str, Any] | None
) -> Explanation:
    from attnx.explanation import Explanation

    text, prediction = header["text"], header["prediction"]
    if prediction is not None:
        pieces = {"labels": tuple(prediction["labels"]), "logits": tuple(prediction["logits"])}
        prediction = Prediction(**{**prediction, **pieces})
    return Explanation(
        positions=tuple(_position(one) for one in header["positions"]),
        words=tuple(Word(**{**one, "positions": tuple(one["positions"])}) for one in header["words"]),
        position=header["position"],
        layers=tuple(header["layers"]),
        relevance=relevance,
        references=references,
        text=(text[0], text[1]) if isinstance(text, list) else text,
        prediction=prediction,
        saturation=None if header["saturation"] is None else tuple(header["saturation"]),
        sink=None if header["sink"] is None else tuple(header["sink"]),
        notes=tuple(header["notes"]),
        provenance=header["provenance"],
        maps=maps,
        image_size=_pair(header.get("image_size")),
    )


def _position(header: dict[str, Any]) -> Position:
    box = header.get("box")
    return Position(**{**header, "box": None if box is None else tuple(box)})


def _pair(size: list[int] | None) -> tuple[int, int] | None:
    return None if size is None else (size[0], size[1])
