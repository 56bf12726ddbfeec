"""The paper's tables, as they are printed."""

import re

import pytest

from attnx.paper.table import ByProtocol, Table
from attnx.paper.tables import CORRECTED
from attnx.paper.tables import PUBLISHED_TABLE_1 as PUBLISHED_TABLE
from attnx.statistics import Summary
from tests.results import examples

CELLS = {
    "raw": (Summary(0.5749, 0.25, 0.55, 0.6, 98, 2), Summary(-0.114, 0.4, -0.2, -0.05, 98, 2)),
    "rollout": (Summary(0.32, 0.26, 0.3, 0.34, 98, 2), Summary(None, None, None, None, 0, 100)),
    "flow": (Summary(1.0, 0.0, 1.0, 1.0, 98, 2), Summary(0.0, 0.1, -0.001, 0.02, 98, 2)),
}


@pytest.fixture
def table():
    return Table(
        title="Table 1",
        reference="blank-out",
        published=PUBLISHED_TABLE,
        measured=(ByProtocol(CORRECTED, CELLS, (0.0, 0.125)),),
        samples=100,
        source="a file",
        accuracy=0.94,
        provenance={"seed": 0},
    )


def test_markdown_has_published_reproduced_interval_difference_and_undefined(table):
    lines = table.markdown().splitlines()
    assert lines[0] == ("**Table 1, blank-out, protocol corrected: 100 sentences of a file (model right in 94.0%)**")
    assert lines[2:9] == [
        "|  |  | L1 | L2 |",
        "|---|---|---|---|",
        "| raw | published | .69±.27 | .10±.43 |",
        "|  | reproduced | .57±.25 | −.11±.40 |",
        "|  | 95 % of mean | .55 to .60 | −.20 to −.05 |",
        "|  | difference | −.12 | −.21 |",
        "|  | undefined | 2 | 2 |",
    ]
    assert "|  | tied share | 0% | 12% |" in lines


def test_every_row_of_markdown_has_as_many_cells(table):
    assert len({line.count("|") for line in table.markdown().splitlines() if line.startswith("|")}) == 1


def test_text_has_the_same_cells_in_columns(table):
    text = table.text()
    assert "reproduced    .57±.25" in text
    columns = [line.find("L1") for line in text.splitlines() if "L1" in line]
    assert text.splitlines()[3][columns[0] :].startswith(".69±.27")


def test_no_cell_is_nan(table):
    assert not re.search(r"\bnan\b", table.text() + table.markdown() + table.to_json(), re.IGNORECASE)


def test_a_plot_has_a_panel_for_each_protocol_and_the_papers_means_dashed():
    panels = examples.table().plot().axes
    assert [panel.get_title() for panel in panels] == ["Table 1, corrected", "Table 1, published"]
    dashed = [line for line in panels[0].lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert [line.get_ydata() for line in dashed] == [[0.69]]


def test_the_subjects_shares_are_printed_and_drawn():
    table = examples.subject_table()
    assert "right (100)" in table.text()
    assert "Attractors are not marked in this data" in table.text()
    assert [panel.get_title() for panel in table.plot().axes] == ["right predictions", "wrong predictions"]
