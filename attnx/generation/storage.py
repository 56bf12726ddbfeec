"""Explained generations on disk: safetensors for the matrices, JSON in its header for the rest. No pickle."""

from __future__ import annotations

import json
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import AttnxError, FileFormatError
from attnx.positions import Position, Word
from attnx.prediction import Prediction

if TYPE_CHECKING:
    from attnx.generation import GenerationExplanation

FORMAT = 1
_KEY = "attnx.generation"


def save(generation: GenerationExplanation, path: str | PathLike[str]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    header = generation.to_dict()
    del header["relevance"]
    header |= {"format": FORMAT, "methods": list(generation.methods)}
    numbers = {name: np.ascontiguousarray(scores) for name, scores in generation.relevance.items()}
    try:
        save_file(numbers, fspath(path), metadata={_KEY: json.dumps(header)})
    except (SafetensorError, OSError) as error:
        raise AttnxError(f"cannot write {fspath(path)}: {error}") from error


def load(path: str | PathLike[str]) -> GenerationExplanation:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(fspath(path), framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            if text is None:
                raise FileFormatError(f"{fspath(path)} holds no explained generation; give one that g.save() wrote")
            header = json.loads(text)
            if header["format"] != FORMAT:
                raise FileFormatError(
                    f"{fspath(path)} has format {header['format']}, this attnx reads {FORMAT}; "
                    "load it with the attnx that wrote it"
                )
            relevance = {name: file.get_tensor(name) for name in header["methods"]}
        return _generation(header, relevance)
    except FileFormatError:
        raise
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{fspath(path)} is no explained generation: {error}") from error
    except Exception as error:  # whatever a header that was tampered with can lead to
        raise FileFormatError(f"{fspath(path)} is a damaged explained generation: {error!r}; save it again") from error


def _generation(header: dict[str, Any], relevance: dict[str, Any]) -> GenerationExplanation:
    from attnx.generation import GenerationExplanation

    return GenerationExplanation(
        positions=tuple(Position(**one) for one in header["positions"]),
        words=tuple(Word(**{**one, "positions": tuple(one["positions"])}) for one in header["words"]),
        prompt_length=header["prompt_length"],
        layer=header["layer"],
        relevance=relevance,
        predictions=tuple(
            Prediction(**{**one, "labels": tuple(one["labels"]), "logits": tuple(one["logits"])})
            for one in header["predictions"]
        ),
        text=header["text"],
        notes=tuple(header["notes"]),
        provenance=header["provenance"],
    )
