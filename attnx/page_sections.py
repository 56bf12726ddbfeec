"""The sections of the page from the top down, by the names of their folders in `views/page/sections`.

Loaded when a page is first written.
"""

from __future__ import annotations

from attnx import benchmarks, counterfactuals, evaluation, generation, views, word_alignment
from attnx.results import Explanation
from attnx.similarity import Similarity
from attnx.views import SECTIONS, Section, plain_tables

for _name, _section in {
    "tables": Section(views.tables_section, plain_tables("tables")),
    "side_by_side": Section(
        counterfactuals.side_by_side_section, plain_tables("side_by_side"), (counterfactuals.SideBySide,)
    ),
    "alignment": Section(
        word_alignment.alignment_section, plain_tables("alignment"), (word_alignment.Alignment, Similarity)
    ),
    "summary": Section(evaluation.summary_section, evaluation.summary_plain, (evaluation.Comparison,)),
    "atlas": Section(evaluation.atlas_section, evaluation.atlas_plain, (evaluation.HeadAtlas,)),
    "faithfulness": Section(evaluation.faithfulness_section, evaluation.faithfulness_plain, (evaluation.Faithfulness,)),
    "truth": Section(benchmarks.benchmark_section, benchmarks.benchmark_plain, (benchmarks.BenchmarkTable,)),
    "generation": Section(
        generation.generation_section, plain_tables("generation"), (generation.GenerationExplanation,)
    ),
    "text": Section(views.text_section, views.text_plain, (Explanation,)),
    "trust": Section(views.trust_section),
    "spans": Section(views.spans_section, views.spans_plain),
    "layers": Section(views.canvas_section),
    "graph": Section(views.canvas_section),
    "heads": Section(views.heads_section),
    "head_view": Section(views.head_view_section),
    "agreement": Section(views.agreement_section),
    "details": Section(views.details_section),
}.items():
    SECTIONS.add(_name, _section)
