"""One result of each kind, made by hand: none needs a model, and each has something undefined or empty in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnx.adapters import Position, Word
from attnx.benchmarks import BenchmarkTable
from attnx.benchmarks.result import SuiteTable
from attnx.counterfactuals import SideBySide
from attnx.evaluation import Comparison, EvaluationTable, Faithfulness, HeadAtlas, Recommendation
from attnx.generation import GenerationExplanation
from attnx.paper.subject import SubjectTable
from attnx.paper.table import PaperTable
from attnx.paper.tables import CORRECTED, PUBLISHED
from attnx.pronouns.report import PronounReport
from attnx.pronouns.result import Candidate, Probe
from attnx.results import Change, Explanation
from attnx.runs.summary import Group, RunSummary, WordShare
from attnx.similarity import Similarity
from attnx.statistics import Summary
from attnx.targets import Prediction
from attnx.word_alignment import Alignment
from attnx.word_alignment.links import Gold
from tests.made import explanation as made_explanation
from tests.made import generation as made_generation

CELL = Summary(0.5749, 0.25, 0.55, 0.6, 98, 2)
BASELINES = {
    "nearest candidate": Summary(0.5, 0.25, 0.4, 0.6, 98, 2),
    "commonest pronoun's": Summary(None, None, None, None, 0, 98),
}
UNDEFINED = Summary(None, None, None, None, 0, 100)
PROVENANCE = {"model": "made by hand", "settings": {"head": "mean", "layers": [1, 2]}}
POSITIONS = (Position(0, "[CLS]", special=True), Position(1, "a|b", word=0), Position(2, "##c", word=0))
WORDS = (Word(0, "a|bc", (1, 2)),)
ANSWER = Prediction("class", "good", 1, 0.75, ("bad", "good"), (-0.5, 0.6))


def explanation() -> Explanation:
    rows = np.array([[0.25, 0.25, 0.5], [0.125, 0.5, 0.375]])
    maps = np.full((2, 3, 3), 0.1, dtype=np.float32)
    return made_explanation(
        POSITIONS,
        WORDS,
        position=0,
        layers=(1, 2),
        relevance={"raw": rows, "flow": rows / 3},
        references={"gradient": np.array([0.5, -1.0, 2.0])},
        text="a|bc",
        prediction=ANSWER,
        causal=True,
        diagnostics={"flow": {"saturation": (0.0, 0.5), "tied": (0.25, 1 / 3)}},
        signed=frozenset({"gradient"}),
        target_specific=frozenset({"gradient"}),
        digits={"flow": 9},
        local=frozenset({"raw"}),
        sink=(0.1, 0.2),
        notes=("made by hand",),
        provenance=PROVENANCE,
        maps={"raw": maps},
    )


def generation() -> GenerationExplanation:
    return made_generation(
        POSITIONS,
        WORDS,
        prompt_length=2,
        layer=3,
        relevance={"rollout": np.array([[0.25, 0.75]])},
        predictions=(ANSWER,),
        text="a|bc",
        digits={"flow": 9},
        provenance=PROVENANCE,
    )


def comparison() -> Comparison:
    values = np.array([[0.5, np.nan], [0.25, -1.0]])
    return Comparison(
        values={"raw": np.hstack([values, -values])},
        columns=("gradient L1", "gradient L2", "blankout L1", "blankout L2"),
        measure="spearman",
        layers=(1, 2),
        ceiling={"gradient": {"blankout": values[:, 1]}, "blankout": {"gradient": values[:, 1]}},
        texts=("one", "two"),
        provenance=PROVENANCE,
    )


def faithfulness() -> Faithfulness:
    curve = np.linspace(1, 0.5, 11)
    values = np.array([[0.5, 0.25, 0.125, 1.0]])
    both = {"rollout": curve, "random": curve / 2}
    scores = {"rollout": values, "random": values / 2}
    return Faithfulness(values=scores, layer=6, score="probability", deletion=both, insertion=both, orders=10)


def recommendation() -> Recommendation:
    values = np.array([0.5, 0.25, 0.125, 1.0, 0.5, 0.75])[:, None]
    return Recommendation(
        values={"gradient": values, "rollout": values / 4, "random": values / 3},
        references={"gradient": {"reduction": "norm"}},
        layer=6,
        score="probability",
        replacement="[MASK]",
        runs=40,
        forwards={"gradient": 2.0},
        left_out={"alti": "the model has no blocks"},
        provenance=PROVENANCE,
    )


def atlas() -> HeadAtlas:
    values = np.array([[0.5, np.nan, 0.25, 0.125]])
    return HeadAtlas(
        values={"carried": abs(values), "gradient": values},
        columns=("L1 h0", "L1 h1", "L2 h0", "L2 h1"),
        method="rollout",
        measure="spearman",
        layers=(1, 2),
        texts=("one",),
    )


def probe() -> Probe:
    return Probe(
        "a saw b: [MASK]",
        mask=5,
        candidates=(Candidate("a", (1,)), Candidate("b", (3, 4))),
        probabilities={"he": 0.6, "she": 0.2},
        layers=(1, 2),
        relevance={"flow": np.array([[0.5, 0.25], [0.5, 0.5]])},
        implies={"he": "a", "she": "b"},
        provenance=PROVENANCE,
    )


def report() -> PronounReport:
    """Of two sentences at two layers: the first question applies to both, the second to none."""
    nan = np.nan
    return PronounReport(
        values={
            "flow": np.array([[1.0, nan, nan, nan], [0.0, nan, nan, nan]]),
            "nearest candidate": np.array([[1.0, 1.0, nan, nan], [nan, nan, nan, nan]]),
            "most word pieces": np.full((2, 4), nan),
            "commonest pronoun's": np.full((2, 4), nan),
            "chance": np.full((2, 4), 0.5),
        },
        columns=("right 1", "right 2", "implied 1", "implied 2"),
        baseline="chance",
        layers=(1, 2),
        with_layers=("flow",),
        wanted={"right": ("a|b", "c"), "implied": (None, None)},
        source="a test",
        predicted={"he": 90, "she": 10},
        mass=0.8,
        notes={"a note": 2},
        provenance=PROVENANCE,
    )


def table() -> PaperTable:
    """Of three sentences under two protocols at two layers; what is undefined counts as 0 under the second."""
    nan = np.nan
    return PaperTable(
        values={
            "raw": np.array([[0.5, nan, 0.25, 0.1], [0.6, nan, 0.5, 0.2], [nan, nan, 0.75, nan]]),
            "flow": np.array([[nan, 0.5, 0.5, 0.1], [nan, 0.75, 0.5, 0.2], [nan, 1.0, 0.5, 0.3]]),
        },
        columns=("corrected 1", "corrected 2", "published 1", "published 2"),
        title="Table 1",
        reference="blank-out",
        published={"raw": ((0.69, 0.27), None)},
        protocols=(CORRECTED, PUBLISHED),
        tied={"corrected": (0.0, 0.125), "published": (0.0, 0.5)},
        source="a file",
        accuracy=None,
        provenance=PROVENANCE,
    )


def subject_table() -> SubjectTable:
    """Of a sentence that is predicted right and one that is predicted wrong, which has no relevance."""
    return SubjectTable(
        values={"flow": np.array([[0.5, 0.25, 0.25, 1.0], [np.nan] * 4])},
        right=(True, False),
        layer=2,
        source="a file",
        attractors_known=False,
        provenance=PROVENANCE,
    )


def evaluation_table() -> EvaluationTable:
    values = np.array([[0.5, np.nan], [0.25, -1.0]])
    return EvaluationTable(values={"raw": values, "chance": -values}, columns=("a", "b"), provenance=PROVENANCE)


def suite() -> SuiteTable:
    return truth().suites["recall"]


def truth() -> BenchmarkTable:
    values = np.array([[0.5, 0.0], [1.0, 1.0], [1.0, 1.0], [0.5, 0.0], [1 / 3, 0.0], [1.0, 1.0]])
    recall = SuiteTable(
        values={"raw": values, "gradient": values[::-1], "chance": values * 0 + 0.25, "(first)": values / 2},
        fixed_orders=("(first)",),
        title="a|value",
        right="it",
        source="made by hand",
        wrong=2,
        signed=("gradient",),
        provenance=PROVENANCE,
    )
    texts = SuiteTable(
        values={"raw": values / 4, "chance": values / 4},
        columns=("comprehensiveness", "sufficiency"),
        lower_is_better=("sufficiency",),
        refused={"gradient": "it has none"},
    )
    return BenchmarkTable({"recall": recall, "texts": texts})


def side_by_side() -> SideBySide:
    after = replace(explanation(), text="a|bd", words=(Word(0, "a|bd", (1, 2)),))
    rows = (((0,), (0,)), ((), (0,)))
    both = (explanation(), after)
    return SideBySide(both, ("before", "after"), rows, (Change(3, 4, "d"),), provenance=PROVENANCE)


def word_alignment() -> Alignment:
    words, scores = (("a|b", "c"), ("d",)), np.array([[0.25, 0.75]])
    gold = [Gold(frozenset({(1, 0)}), frozenset({(0, 0), (1, 0)}))]
    told = {"method": "raw", "layer": "cross 1", "notes": ("made by hand",), "provenance": PROVENANCE}
    return Alignment.choose([words], [scores], "argmax", **told).against(gold)


def similarity() -> Similarity:
    grid = np.array([[0.1, 0.0, -0.25, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.05], [0.1, 0.0, 0.0, 0.0]])
    both = (explanation(), explanation())
    return Similarity(both, 0.5, "mean", grid, "lrp", ("made by hand",), PROVENANCE)


def run_summary():
    words = (WordShare("witty", 2, 3, 0.4, (0, 5)), WordShare("film", 1, 3, 0.2, ()))
    group = Group("POSITIVE", None, 3, 2, 1, 0.9, words, (0.2, 0.2, 0.2, 0.1, 0.1, 0.2))
    apart = Group("POSITIVE", "NEGATIVE", 1, 0, 1, None, words[:1], (0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    return RunSummary("rollout", 4, 1, (group,), (apart,), {"the text is empty": 1}, PROVENANCE)


EXAMPLES = (
    explanation,
    generation,
    comparison,
    faithfulness,
    recommendation,
    atlas,
    probe,
    report,
    table,
    subject_table,
    evaluation_table,
    suite,
    truth,
    side_by_side,
    word_alignment,
    similarity,
    run_summary,
)
