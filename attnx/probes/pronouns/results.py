"""The results of a run on disk: a line of JSON for each sentence, written as they come, so that a stopped run goes on.

The first line says what the run is of. A file of another model, data set or choice of methods is refused, never mixed
with. A process that is killed can leave half a line at the end; it is cut off, and its sentence is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import attnx
from attnx.errors import FileFormatError, InputError
from attnx.probes.pronouns.outcome import Probe
from attnx.probes.pronouns.probe import Ready

FORMAT = 1
_KIND = "attnx pronoun probes"


def settings(model: nn.Module, ready: Sequence[Ready], methods: Sequence[str], span: str) -> dict[str, Any]:
    """What makes the numbers of a run: two runs may share a file only where all of it is the same."""
    asked = [{**vars(one.sentence), "place": None} for one in ready]
    read = [[one.masked.prepared.inputs["input_ids"].tolist(), one.masked.token_ids] for one in ready]
    return {
        "attnx": attnx.__version__,
        "methods": list(methods),
        "span": span,
        "data": hashlib.sha256(json.dumps(asked).encode()).hexdigest(),
        "tokens": hashlib.sha256(json.dumps(read).encode()).hexdigest(),
        "model": _fingerprint(model),
    }


_NAMES = {
    "attnx": "another version of attnx",
    "methods": "other methods",
    "span": "another span",
    "data": "other data",
    "tokens": "another tokenizer",
    "model": "another model",
}


def begin(path: Path, chosen: Mapping[str, Any]) -> dict[int, Probe]:
    """The probes that the file has, by the sentence's index; a new file is begun where there is none."""
    header = json.dumps({"kind": _KIND, "format": FORMAT, **chosen}).encode() + b"\n"
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent}; make it first")
    written = path.read_bytes() if path.exists() else b""
    if header.startswith(written):  # nothing, or a header that was cut
        path.write_bytes(header)
        return {}
    whole = written[: written.rfind(b"\n") + 1]
    first, *lines = whole.splitlines() or [b""]
    _check(path, first, chosen)
    probes = dict(_probe(path, number, line) for number, line in enumerate(lines, start=2))
    if len(whole) < len(written):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return probes


def append(path: Path, probes: Mapping[int, Probe]) -> None:
    """Add some sentences' results, and see them on the disk."""
    lines = []
    for index, one in probes.items():
        data = one.to_dict()
        del data["provenance"]  # the same for every line; the first line of the file tells the model apart
        lines.append(json.dumps({"sentence": index, **data}, ensure_ascii=False, allow_nan=False) + "\n")
    with path.open("ab") as file:
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())


def _check(path: Path, first: bytes, chosen: Mapping[str, Any]) -> None:
    try:
        header = json.loads(first)
        ours = header["kind"] == _KIND
    except (ValueError, KeyError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise FileFormatError(f"{path} is no file of probe results; give another name, and nothing is overwritten")
    if header.get("format") != FORMAT:
        raise FileFormatError(
            f"{path} has format {header.get('format')}, this attnx writes {FORMAT}; give another name, or delete it"
        )
    other = [_NAMES[name] for name, value in chosen.items() if header.get(name) != value]
    if _NAMES["data"] in other and _NAMES["tokens"] in other:
        other.remove(_NAMES["tokens"])  # other sentences have other tokens with any tokenizer
    if other:
        raise InputError(
            f"{path} holds results of {' and '.join(other)}, which are not mixed; give another name, or delete it to "
            "start anew"
        )


def _probe(path: Path, number: int, line: bytes) -> tuple[int, Probe]:
    try:
        data = json.loads(line)
        return int(data["sentence"]), Probe.from_dict({**data, "provenance": {}})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{path}, line {number} is damaged ({type(error).__name__}); delete it, and its sentence is asked again"
        ) from error


def _fingerprint(model: nn.Module) -> str:
    """A hash of the weights: the name of a checkpoint does not tell whether it was trained on since."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type != "meta":
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
