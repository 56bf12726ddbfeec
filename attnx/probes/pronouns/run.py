"""Figure 4 a thousand times: a data set through the probe, in batches, with results kept as they come."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from attnx.errors import FileFormatError, InputError
from attnx.inputs.families import adapter_for
from attnx.methods.registry import METHODS, PAPER_METHODS
from attnx.probes.pronouns.probe import Ready, Span, ask, prepare
from attnx.probes.pronouns.sentence import Sentence
from attnx.references.registry import Asked, asked_references
from attnx.results.pronoun_report import Report
from attnx.results.pronouns import Probe
from attnx.results.provenance import provenance
from attnx.running.batches import bar

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
_KIND = "attnx pronoun probes"


def settings(
    model: nn.Module, ready: Sequence[Ready], methods: Sequence[str], references: Asked | None, span: str
) -> dict[str, Any]:
    """What makes the numbers of a run: two runs may share a file only where all of it is the same."""
    asked = [{**vars(one.sentence), "place": None} for one in ready]
    read = [[one.masked.prepared.inputs["input_ids"].tolist(), one.masked.token_ids] for one in ready]
    return {
        "attnx": version("attnx"),
        "methods": list(methods),
        "references": None if references is None else repr(asked_references(references)),
        "span": span,
        "data": hashlib.sha256(json.dumps(asked).encode()).hexdigest(),
        "tokens": hashlib.sha256(json.dumps(read).encode()).hexdigest(),
        "model": _fingerprint(model),
    }


_NAMES = {
    "attnx": "another version of attnx",
    "methods": "other methods",
    "references": "other references",
    "span": "another span",
    "data": "other data",
    "tokens": "another tokenizer",
    "model": "another model",
}


def opened_alone(path: Path) -> IO[bytes]:
    """The file of results, locked until it is closed: two runs that append to one file would each ask everything.

    The lock is the system's, so that of a process that was killed is gone. Where there are none it is not taken.
    """
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent}; make it first")
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(f"another run is writing to {path}; wait for it, or give another name") from None
        except OSError:  # a file system without locks
            pass
    return file


def begin(path: Path, chosen: Mapping[str, Any], sentences: int) -> dict[int, Probe]:
    """The probes that the file has, by the index of one of so many sentences; it is begun where there are none."""
    header = json.dumps({"kind": _KIND, "format": FORMAT, **chosen}).encode() + b"\n"
    written = path.read_bytes()
    if header.startswith(written):  # nothing, or a header that was cut
        path.write_bytes(header)
        return {}
    whole = written[: written.rfind(b"\n") + 1]
    first, *lines = whole.splitlines() or [b""]
    _check(path, first, chosen)
    probes: dict[int, Probe] = {}
    for number, line in enumerate(lines, start=2):
        index, probe = _probe(path, number, line)
        if not 0 <= index < sentences:
            raise FileFormatError(f"{path}, line {number} is of sentence {index}, the data has 0 to {sentences - 1}")
        if index in probes:
            raise FileFormatError(f"{path}, line {number} is of sentence {index}, which has a line already; delete one")
        probes[index] = probe
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
        data = json.loads(line, parse_constant=_no_number)
        sentence = operator.index(data.pop("sentence"))
        return sentence, Probe.from_dict({**data, "provenance": {}})
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, FileFormatError) else type(error).__name__
        raise FileFormatError(
            f"{path}, line {number} is damaged ({reason}); delete it, and its sentence is asked again"
        ) from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _fingerprint(model: nn.Module) -> str:
    """A hash of the weights: the name of a checkpoint does not tell whether it was trained on since."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type != "meta":
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def run(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    source: str = "a list",
    output: str | Path | None = None,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: Asked | None = None,
    span: Span = "sum",
    batch_size: int = 8,
    seed: int = 0,
    progress: bool = False,
) -> Report:
    """How often the mask draws most from the right referent, and from the candidate that the prediction implies.

    Results are appended to the file `output` after every batch. If it has some of them already, the run goes on from
    there; a file of another model, data set or choice of methods is an error. `seed` is that of the bootstrap.
    """
    methods = (methods,) if isinstance(methods, str) else tuple(dict.fromkeys(methods))
    if not sentences or not methods or batch_size < 1:
        raise InputError("a run needs at least one sentence, one method, and a batch_size of 1 or more")
    for name in methods:
        METHODS[name]
    ready = prepare(model, tokenizer, sentences)
    if output is None:
        probes = _asked(model, tokenizer, ready, {}, None, methods, references, span, batch_size, progress)
    else:
        path = Path(output)
        with opened_alone(path):
            there = begin(path, settings(model, ready, methods, references, span), len(ready))
            probes = _asked(model, tokenizer, ready, there, path, methods, references, span, batch_size, progress)
    return Report.of(
        [one.answer for one in sentences],
        [probes[index] for index in range(len(ready))],
        source=source,
        seed=seed,
        provenance=provenance(model, adapter_for(model).name, methods=list(methods), span=span, seed=seed),
    )


def _asked(
    model: nn.Module,
    tokenizer: Any,
    ready: Sequence[Ready],
    there: Mapping[int, Probe],
    path: Path | None,
    methods: Sequence[str],
    references: Asked | None,
    span: Span,
    batch_size: int,
    progress: bool,
) -> dict[int, Probe]:
    """All probes: those that are there, and the others asked now, batch by batch, and appended to the file if any."""
    probes = dict(there)
    missing = [index for index in range(len(ready)) if index not in probes]
    missing.sort(key=lambda index: len(ready[index].shown.positions))
    with bar("pronouns", len(ready), progress, unit=" sentences") as shown:
        shown.update(len(ready) - len(missing))
        for start in range(0, len(missing), batch_size):
            batch = missing[start : start + batch_size]
            asked = [ready[index] for index in batch]
            found = ask(
                model, tokenizer, asked, methods=methods, references=references, span=span, batch_size=batch_size
            )
            fresh = dict(zip(batch, found, strict=True))
            if path is not None:
                append(path, fresh)
            probes |= fresh
            shown.update(len(batch))
    return probes
