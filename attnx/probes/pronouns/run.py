"""Figure 4 a thousand times: a data set through the probe, in memory, or in a folder where a stopped run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from attnx.data.fingerprint import as_setting
from attnx.data.keeping import Keeping
from attnx.data.measurement import Measurement
from attnx.data.question import Tick
from attnx.errors import FileFormatError, InputError
from attnx.inputs.families import adapter_for
from attnx.methods.registry import METHODS, PAPER_METHODS
from attnx.probes.pronouns.probe import Ready, Span, ask, prepare
from attnx.probes.pronouns.sentence import Sentence
from attnx.references.registry import AskedReferences, asked_references
from attnx.results.gathered import FACTS, Cells, Gathered, facts
from attnx.results.pronoun_report import Report
from attnx.results.pronouns import Probe
from attnx.results.provenance import provenance
from attnx.running.batches import bar
from attnx.running.given_model import given_model

_SHARD = 64
"""Sentences of one part: each is asked much, and what a stopped run loses is the part that it was at."""
_OLDER = b'{"kind": "attnx pronoun probes"'
"""How the results files of earlier versions begin."""


def run(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    source: str = "a list",
    output: str | PathLike[str] | None = None,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences | None = None,
    span: Span = "sum",
    batch_size: int = 8,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Report:
    """How often the mask draws most from the right referent, and from the candidate that the prediction implies.

    With a folder as `output` the probes are kept there, and the same call goes on where a stopped or killed one was; a
    folder of another model, data set or choice of methods is an error. `options` are then those of `explain_dataset`:
    `shard_rows`, `engine`, `workers`, `num_gpus`. A sentence that cannot be asked is left out, and the notes say why;
    without a folder it is an error. `seed` is that of the bootstrap.
    """
    methods = (methods,) if isinstance(methods, str) else tuple(dict.fromkeys(methods))
    if not sentences or not methods or batch_size < 1:
        raise InputError("a run needs at least one sentence, one method, and a batch_size of 1 or more")
    for name in methods:
        METHODS[name]
    _check_no_older_file(output)
    keeping, unknown = Keeping.taken(output, {"shard_rows": _SHARD, **options})
    if unknown:
        raise InputError(f"{next(iter(unknown))} is no option of a run over pronouns")
    asked = None if references is None else asked_references(references)
    asking = Asking(methods, asked, span, batch_size, source, seed)
    report: Report = keeping.result(asking, given_model(model, tokenizer), list(sentences), progress=progress)
    return report


@dataclass(frozen=True)
class Asking(Measurement[Ready]):
    """The measurement: a probe of each sentence."""

    name: ClassVar[str] = "pronouns"
    methods: tuple[str, ...]
    references: Mapping[str, Mapping[str, Any]] | None
    span: Span
    batch_size: int
    source: str
    """For the report, as is the seed: no probe depends on them."""
    seed: int

    def settings(self) -> dict[str, Any]:
        chosen = {"methods": self.methods, "references": self.references, "span": self.span, "batch": self.batch_size}
        return {name: as_setting(value) for name, value in chosen.items() if value is not None}

    def read(self, model: Any, processor: Any, given: Any) -> Sequence[Ready]:
        return prepare(model, processor, [given] if isinstance(given, Sentence) else given)

    def cells(self, model: Any, processor: Any, things: Sequence[Ready], tick: Tick, progress: bool) -> Sequence[Cells]:
        """From short sentences to long ones, batch by batch."""
        record = provenance(model, adapter_for(model).name, methods=list(self.methods), span=self.span)
        order = sorted(range(len(things)), key=lambda place: len(things[place].shown.positions))
        found: dict[int, Cells] = {}
        with bar(self.name, len(things), progress, unit=" sentences") as shown:
            for start in range(0, len(order), self.batch_size):
                places = order[start : start + self.batch_size]
                for place, probe in zip(places, self._probes(model, processor, things, places), strict=True):
                    found[place] = _cells(things[place].sentence, probe, record)
                    shown.update(1)
                    tick()
        return [found[place] for place in range(len(things))]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Report:
        found = Gathered.of(cells, left_out)
        record = found.provenance
        report = Report.of(
            [one or None for one in found.columns["answer"]],
            [Probe.from_dict({**json.loads(one), "provenance": {}}) for one in found.columns["probe"]],
            source=self.source,
            seed=self.seed,
            provenance={**record, "settings": {**record["settings"], "seed": self.seed}},
        )
        return replace(report, notes=found.notes)

    def _probes(self, model: Any, processor: Any, things: Sequence[Ready], places: Sequence[int]) -> list[Probe]:
        return ask(
            model,
            processor,
            [things[place] for place in places],
            methods=self.methods,
            references=self.references,
            span=self.span,
            batch_size=self.batch_size,
        )


def _cells(sentence: Sentence, probe: Probe, record: Mapping[str, Any]) -> Cells:
    """The probe as JSON, all digits; its provenance is the same for all."""
    told = {name: value for name, value in probe.to_dict().items() if name != "provenance"}
    return {
        "probe": json.dumps(told, ensure_ascii=False, allow_nan=False),
        "answer": sentence.answer or "",
        FACTS: facts(provenance=record, notes=probe.notes),
    }


def _check_no_older_file(output: str | PathLike[str] | None) -> None:
    """Results were a file of lines once, which is not read any more."""
    path = None if output is None else Path(output)
    if path is None or not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(len(_OLDER)) == _OLDER:
            raise FileFormatError(
                f"{path} is a results file of an earlier attnx, which a run does not go on from; results are a folder "
                f"now: give {path.with_suffix('').name!r}, and its sentences are asked again"
            )
