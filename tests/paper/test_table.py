"""The paper's tables: what is printed, drawn and saved of them."""

import re

import numpy as np
import pytest

from attnx.errors import FileFormatError
from attnx.paper.table import PaperTable
from attnx.paper.tables import CORRECTED, PUBLISHED_TABLE_3, PUBLISHED_VALUES_1, PUBLISHED_VALUES_2
from tests.results import examples


@pytest.fixture
def table():
    return PaperTable(
        values={
            "raw": np.array([[0.2, -0.4], [0.9, 0.2], [np.nan, np.nan]]),
            "rollout": np.array([[0.3, np.nan]] * 3),
            "flow": np.array([[1.0, 0.0]] * 3),
        },
        columns=("corrected 1", "corrected 2"),
        title="Table 1",
        reference="blank-out",
        published=PUBLISHED_VALUES_1,
        protocols=(CORRECTED,),
        tied={"corrected": (0.0, 0.125)},
        source="a file",
        accuracy=0.94,
    )


def test_the_published_tables_are_the_papers():
    assert PUBLISHED_VALUES_1["flow"][2] == (0.70, 0.25)
    assert PUBLISHED_VALUES_1["raw"][3] == (-0.09, 0.52)
    assert PUBLISHED_VALUES_2["rollout"][5] == (0.54, 0.31)
    assert all(len(cells) == 6 for values in (PUBLISHED_VALUES_1, PUBLISHED_VALUES_2) for cells in values.values())


def test_markdown_has_published_reproduced_interval_difference_and_undefined(table):
    lines = table.to_markdown().splitlines()
    assert lines[0] == "**Table 1, blank-out, protocol corrected: 3 sentences of a file (model right in 94.0%)**"
    assert lines[2:9] == [
        "|  |  | L1 | L2 |",
        "|---|---|---|---|",
        "| raw | published | .69±.27 | .10±.43 |",
        "|  | reproduced | .55±.35 | −.10±.30 |",
        "|  | 95 % of mean | .20 to .90 | −.40 to .20 |",
        "|  | difference | −.14 | −.20 |",
        "|  | undefined | 1 | 1 |",
    ]
    assert "|  | tied share | 0% | 12% |" in lines
    assert lines[-1].endswith("(up to 3 in a cell).")


def test_every_row_of_markdown_has_as_many_cells(table):
    assert len({line.count("|") for line in table.to_markdown().splitlines() if line.startswith("|")}) == 1


def test_text_has_the_same_cells_in_columns(table):
    text = table.to_text()
    assert "reproduced    .55±.35" in text
    columns = [line.find("L1") for line in text.splitlines() if "L1" in line]
    assert text.splitlines()[3][columns[0] :].startswith(".69±.27")


def test_latex_has_a_table_for_each_protocol(table):
    assert table.to_latex().count(r"\begin{tabular}") == 1
    assert examples.table().to_latex().count(r"\begin{tabular}") == 2


def test_no_cell_is_nan(table):
    assert not re.search(r"\bnan\b", table.to_text() + table.to_markdown() + table.to_json(), re.IGNORECASE)


def test_a_plot_has_a_panel_for_each_protocol_and_the_papers_means_dashed():
    panels = examples.table().plot().axes
    assert [panel.get_title() for panel in panels] == ["Table 1, corrected", "Table 1, published"]
    dashed = [line for line in panels[0].lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert [line.get_ydata() for line in dashed] == [[0.69]]


def test_the_subjects_shares_are_printed_and_drawn():
    table = examples.subject_table()
    assert "right (1)" in table.to_text()
    assert "Attractors are not marked in this data" in table.to_text()
    assert [panel.get_title() for panel in table.plot().axes] == ["right predictions", "wrong predictions"]


def test_what_is_undefined_counts_for_what_the_protocol_says():
    table = examples.table()
    left_out, zero = table.cell("raw", "corrected 1"), table.cell("raw", "published 2")
    assert (left_out.count, left_out.undefined, left_out.mean) == (2, 1, pytest.approx(0.55))
    assert (zero.undefined, zero.mean) == (1, pytest.approx(0.1))


def test_json_has_all_digits_and_the_protocols():
    table = examples.table()
    read = PaperTable.from_json(table.to_json())
    assert read == table
    assert read.protocols[0] == CORRECTED
    with pytest.raises(FileFormatError, match="tied must be"):
        PaperTable.from_dict({**table.to_dict(), "tied": {}})
    with pytest.raises(FileFormatError, match="right must be one for each of 2 sentences"):
        type(examples.subject_table()).from_dict({**examples.subject_table().to_dict(), "right": [True]})


def test_a_protocol_says_what_was_done():
    assert CORRECTED.describe("blank-out") == (
        "content positions blanked; content positions ranked; average ranks; undefined examples left out"
    )
    assert PUBLISHED_TABLE_3.describe("input gradients").startswith(
        "signed sum of ∂logit(positive)/∂embedding (position embedding and LayerNorm applied twice)"
    )
