"""Where is a word heard that Whisper writes? Words that espeak-ng speaks at known times, and Whisper tiny.en.

    ATTNX_ASSETS=… python -m tests.benchmarks.spoken

Each sentence is spoken word by word with silence between, so that the time of each word is known. Whisper writes it;
counted are the words of five letters or more that it writes right and that are spoken once. Two questions are asked of
each: how high among the spoken words stands the right one, by the sum over its stretches (reciprocal rank, and how
often it is first), and whether the best stretch of 20 ms is inside of it. Orders that know nothing stand beside them:
chance, and the longest word, for a long word has more stretches to sum over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import attnx
from attnx.benchmarks.ranking import is_first, reciprocal_rank
from attnx.generation import GenerationExplanation
from attnx.statistics import bootstrap_interval
from tests import whisper_tiny
from tests.whisper_tiny import Spoken

SENTENCES = (
    "yesterday the president visited a hospital in Washington",
    "seven hundred people live on the island",
    "my brother bought another telephone and a computer",
    "the teacher opened every window because of the weather",
    "tomorrow morning the train leaves for London",
    "scientists discovered another planet",
    "the government announced a different decision",
    "children collected beautiful flowers behind the garden",
)
LETTERS, PAUSE, NEW = 5, 0.15, 24
METHODS = ("raw", "rollout", "alti")
REFERENCES = ("lrp", "attn_lrp", "gradient", "input_x_gradient", "blankout")
CHANCE, LONGEST = "chance", "(longest)"


def main() -> None:
    model, processor = whisper_tiny.load()
    found: dict[str, list[tuple[float, float, float]]] = {}
    for sentence in SENTENCES:
        spoken = whisper_tiny.speak(sentence.split(), PAUSE)
        g = attnx.explain_generation(
            *(model, processor, spoken.audio), max_new_tokens=NEW, layer="all", methods=METHODS, references=REFERENCES
        )
        asked = list(_written(g, spoken))
        print(f"{sentence} → {(g.text or '').strip()} ({len(asked)} words)", flush=True)
        for step, right in asked:
            for name, scores in _rows(g, step, spoken).items():
                found.setdefault(name, []).append(_answers(scores, g, spoken, right))
    print(f"\n{len(found[CHANCE])} words\n\n{_table(found)}")


def _written(g: GenerationExplanation, spoken: Spoken) -> Iterator[tuple[int, int]]:
    """(step, number of the spoken word) of each word that is counted."""
    said = [word.lower() for word in spoken.words]
    wrote = [(one.text.lower(), one.positions[0]) for one in g.words if one.positions[0] >= g.prompt_length]
    texts = [text for text, _ in wrote]
    for text, position in wrote:
        if len(text) >= LETTERS and said.count(text) == 1 == texts.count(text):
            yield position - g.prompt_length, said.index(text)


def _rows(g: GenerationExplanation, step: int, spoken: Spoken) -> Mapping[str, Any]:
    """What is asked → a number for each position of the source; raw at every level of cross-attention."""
    source = g.sequences["source"]
    kinds = g.provenance["settings"]["layer_kinds"]
    crossed = [at for at, kind in enumerate(kinds) if kind == "cross"]
    rows = {
        f"raw, cross {number}": g.attributions["raw"].scores[at, step] for number, at in enumerate(crossed, start=1)
    }
    rows |= {name: g[name][step] for name in g.methods if name != "raw"}
    lengths = [end - start for start, end in spoken.times]
    longest = np.zeros(source)
    longest[_inside(g, spoken.times[int(np.argmax(lengths))])] = 1
    return {CHANCE: np.zeros(source), LONGEST: longest, **{name: row[:source] for name, row in rows.items()}}


def _answers(scores: Any, g: GenerationExplanation, spoken: Spoken, right: int) -> tuple[float, float, float]:
    """The reciprocal rank among words, whether the word is first, and whether the best stretch is inside of it."""
    sums = [float(scores[_inside(g, time)].sum()) for time in spoken.times]
    time_segments = [one.index for one in g.positions if one.time is not None]
    own = set(_inside(g, spoken.times[right]))
    places = [number for number, index in enumerate(time_segments) if index in own]
    return reciprocal_rank(sums, [right]), is_first(sums, [right]), is_first(scores[time_segments].tolist(), places)


def _inside(g: GenerationExplanation, time: tuple[float, float]) -> list[int]:
    """The stretches whose middle is in that time."""
    timed = [(one.index, sum(one.time) / 2) for one in g.positions if one.time is not None]
    return [index for index, middle in timed if time[0] <= middle < time[1]]


def _table(found: Mapping[str, list[tuple[float, float, float]]]) -> str:
    lines = ["|  | reciprocal rank [95 %] | first | best stretch inside |", "|---|---|---|---|"]
    order = sorted(found, key=lambda name: (name not in (CHANCE, LONGEST), -np.mean([one[0] for one in found[name]])))
    for name in order:
        ranks, firsts, inside = np.array(found[name]).T
        low, high = bootstrap_interval(ranks)
        interval = f" [{low:.2f} {high:.2f}]" if name != CHANCE else ""
        lines.append(f"| {name} | {ranks.mean():.2f}{interval} | {firsts.mean():.2f} | {inside.mean():.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
