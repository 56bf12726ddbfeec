"""The sections of the page from the top down, by the names of their folders in `views/page/sections`.

Loaded when a page is first written.
"""

from __future__ import annotations

from attnx.benchmarks import BenchmarkTable, truth_plain
from attnx.benchmarks import truth_section as truth_data
from attnx.counterfactuals import SideBySide, side_by_side_plain
from attnx.counterfactuals import side_by_side_section as side_by_side_data
from attnx.evaluation import (
    HeadAtlas,
    atlas_plain,
    faithfulness_plain,
    summary_plain,
)
from attnx.evaluation import (
    atlas_section as atlas_data,
)
from attnx.evaluation import (
    faithfulness_section as faithfulness_data,
)
from attnx.evaluation import (
    summary_section as summary_data,
)
from attnx.generation import GenerationExplanation, generation_plain
from attnx.generation import generation_section as generation_data
from attnx.results import Comparison, Explanation, Faithfulness
from attnx.similarity import Similarity
from attnx.views import (
    SECTIONS,
    Section,
    agreement_plain,
    details_plain,
    graph_plain,
    head_view_plain,
    heads_plain,
    layers_plain,
    spans_plain,
    tables_plain,
    text_plain,
    trust_plain,
)
from attnx.views import (
    agreement_section as agreement_data,
)
from attnx.views import (
    details_section as details_data,
)
from attnx.views import (
    graph_section as graph_data,
)
from attnx.views import (
    head_view_section as head_view_data,
)
from attnx.views import (
    heads_section as heads_data,
)
from attnx.views import (
    layers_section as layers_data,
)
from attnx.views import (
    spans_section as spans_data,
)
from attnx.views import (
    tables_section as tables_data,
)
from attnx.views import (
    text_section as text_data,
)
from attnx.views import (
    trust_section as trust_data,
)
from attnx.word_alignment import Alignment, alignment_plain
from attnx.word_alignment import alignment_section as alignment_data

for _name, _section in {
    "tables": Section(tables_data, tables_plain),
    "side_by_side": Section(side_by_side_data, side_by_side_plain, (SideBySide,)),
    "alignment": Section(
        alignment_data,
        alignment_plain,
        (
            Alignment,
            Similarity,
        ),
    ),
    "summary": Section(summary_data, summary_plain, (Comparison,)),
    "atlas": Section(atlas_data, atlas_plain, (HeadAtlas,)),
    "faithfulness": Section(faithfulness_data, faithfulness_plain, (Faithfulness,)),
    "truth": Section(truth_data, truth_plain, (BenchmarkTable,)),
    "generation": Section(generation_data, generation_plain, (GenerationExplanation,)),
    "text": Section(text_data, text_plain, (Explanation,)),
    "trust": Section(trust_data, trust_plain),
    "spans": Section(spans_data, spans_plain),
    "layers": Section(layers_data, layers_plain),
    "graph": Section(graph_data, graph_plain),
    "heads": Section(heads_data, heads_plain),
    "head_view": Section(head_view_data, head_view_plain),
    "agreement": Section(agreement_data, agreement_plain),
    "details": Section(details_data, details_plain),
}.items():
    SECTIONS.add(_name, _section)
