"""Figure 4 a thousand times: a data set through the probe, in batches, with results kept as they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from attnx.errors import InputError
from attnx.methods import METHODS as REGISTERED
from attnx.probes.pronouns import results
from attnx.probes.pronouns.outcome import Probe
from attnx.probes.pronouns.probe import METHODS, Span, ask, prepare
from attnx.probes.pronouns.report import Report
from attnx.probes.pronouns.sentence import Sentence
from attnx.progress import bar


def run(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    source: str = "a list",
    output: str | Path | None = None,
    methods: Sequence[str] | str = METHODS,
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
        REGISTERED[name]
    ready = prepare(model, tokenizer, sentences)
    path = None if output is None else Path(output)
    probes: dict[int, Probe] = (
        {} if path is None else results.begin(path, results.settings(model, ready, methods, span))
    )
    missing = [index for index in range(len(ready)) if index not in probes]
    missing.sort(key=lambda index: ready[index].batch)
    with bar("pronouns", len(ready), progress, unit=" sentences") as shown:
        shown.update(len(ready) - len(missing))
        for start in range(0, len(missing), batch_size):
            batch = missing[start : start + batch_size]
            asked = [ready[index] for index in batch]
            found = ask(model, tokenizer, asked, methods=methods, span=span, batch_size=batch_size)
            fresh = dict(zip(batch, found, strict=True))
            if path is not None:
                results.append(path, fresh)
            probes |= fresh
            shown.update(len(batch))
    return Report.of(
        sentences, [probes[index] for index in range(len(ready))], model, source=source, span=span, seed=seed
    )
