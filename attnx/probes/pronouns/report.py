"""What a data set says, as text, Markdown, JSON or a plot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from attnx.adapters import adapter_for
from attnx.agreement import Summary
from attnx.probes.pronouns.outcome import Probe
from attnx.probes.pronouns.rates import Rates
from attnx.probes.pronouns.sentence import Sentence
from attnx.provenance import provenance
from attnx.render.columns import aligned, piped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Report:
    """Rates per method and layer: of the right referent, and of the candidate that the model's prediction implies."""

    source: str
    sentences: int
    layers: tuple[int, ...]
    right: Rates
    implied: Rates
    prediction: Summary
    """How often the prediction itself implies the right referent; undefined where one of the two is not known."""
    predicted: Mapping[str, int]
    """Pronoun → the number of sentences in which it is the likelier one."""
    mass: float
    """The probability that all pronouns have together, on average."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What should be known of how sentences were read, such as words outside the vocabulary, and in how many."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sentence],
        probes: Sequence[Probe],
        model: nn.Module,
        *,
        source: str,
        span: str = "sum",
        seed: int = 0,
    ) -> Report:
        answers = [one.answer for one in sentences]
        implied = [one.implied for one in probes]
        agrees = [np.nan if None in pair else float(pair[0] == pair[1]) for pair in zip(answers, implied, strict=True)]
        counts = Counter(one.predicted for one in probes if one.predicted is not None)
        return cls(
            source=source,
            sentences=len(probes),
            layers=probes[0].layers,
            right=Rates.of("the right referent", probes, answers, seed),
            implied=Rates.of("the candidate that the prediction implies", probes, implied, seed),
            prediction=Summary.of(np.array(agrees, dtype=np.float64), seed=seed),
            predicted=dict(counts.most_common()),
            mass=float(np.mean([sum(one.probabilities.values()) for one in probes])),
            notes=dict(Counter(note for one in probes for note in one.notes).most_common()),
            provenance=provenance(
                model, adapter_for(model).name, methods=list(probes[0].methods), span=span, seed=seed
            ),
        )

    def text(self) -> str:
        return self._page(aligned, lambda title: title)

    def markdown(self) -> str:
        return self._page(piped, lambda title: f"**{title}**")

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, indent=2)

    def plot(self) -> Figure:
        """The rates over the layers, beside chance and the nearest candidate."""
        from attnx.probes.pronouns.curves import curves

        return curves(self)

    def __str__(self) -> str:
        return self.text()

    def _page(self, table: Any, heading: Any) -> str:
        blocks = [heading(self._title()), self._predictions()]
        for one in (self.right, self.implied):
            if not one.sentences:
                blocks.append(f"{heading(_title(one))}\n\nDoes not apply: no sentence says which one that is.")
                continue
            blocks += [heading(_title(one)), table(list(_lines(one, self.layers)))]
        blocks.append(
            "Shares of decided sentences, with the 95 % interval of a bootstrap over sentences. Candidates that tie to "
            "1e-9 are undecided."
        )
        return "\n\n".join(blocks)

    def _title(self) -> str:
        names = dict.fromkeys(str(self.provenance[key]) for key in ("model", "class") if key in self.provenance)
        return ", ".join([f"Pronouns: {self.sentences:,} sentences of {self.source}", *names])

    def _predictions(self) -> str:
        counts = ", ".join(f"{pronoun} {count:,}" for pronoun, count in self.predicted.items())
        right = ""
        if self.prediction.mean is not None:
            right = f" The prediction implies the right referent in {_share(self.prediction)}."
        return f"Predicted: {counts}. The pronouns have {self.mass:.1%} of the probability on average.{right}"


def _title(rates: Rates) -> str:
    rest = f", {rates.left_out:,} left out" if rates.left_out else ""
    return f"Drawn most from {rates.wanted} ({rates.sentences:,} sentences{rest})"


def _lines(rates: Rates, layers: Sequence[int]) -> Iterator[list[str]]:
    """The cells of the printed table, the head first; a column of ties for a method that has any."""
    tied = [name for name, cells in rates.methods.items() if any(cell.undefined for cell in cells)]
    columns = [column for name in rates.methods for column in ([name, "undecided"] if name in tied else [name])]
    yield ["layer", *columns]
    for row, layer in enumerate(layers):
        line = [str(layer)]
        for name, cells in rates.methods.items():
            line += [_share(cells[row]), *([str(cells[row].undefined)] if name in tied else [])]
        yield line
    blank = [""] * (len(columns) - 1)
    yield ["chance", "–" if rates.chance is None else f"{rates.chance:.1%}", *blank]
    for name, cell in rates.baselines.items():
        if cell.mean is None:
            continue
        undecided = f", {cell.undefined:,} undecided" if cell.undefined else ""
        yield [name, f"{_share(cell)}{undecided}", *blank]


def _share(cell: Summary) -> str:
    if cell.mean is None or cell.low is None or cell.high is None:
        return "–"
    return f"{cell.mean:.1%} ({100 * cell.low:.1f} to {100 * cell.high:.1f})"
