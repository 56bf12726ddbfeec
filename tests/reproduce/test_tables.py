"""What a table prints is what was measured, in three forms."""

import json
import re

import pytest

from attnx.agreement import Summary
from attnx.errors import FileFormatError
from attnx.render.columns import decimals
from attnx.reproduce.protocols import CORRECTED
from attnx.reproduce.table1 import PUBLISHED_TABLE
from attnx.reproduce.table2 import PUBLISHED_TABLE as PUBLISHED_TABLE_2
from attnx.reproduce.tables import Measured, Table

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
        measured=(Measured(CORRECTED, CELLS, (0.0, 0.125)),),
        samples=100,
        source="a file",
        accuracy=0.94,
        provenance={"seed": 0},
    )


def test_the_published_tables_are_the_papers():
    assert PUBLISHED_TABLE["flow"][2] == (0.70, 0.25)
    assert PUBLISHED_TABLE["raw"][3] == (-0.09, 0.52)
    assert PUBLISHED_TABLE_2["rollout"][5] == (0.54, 0.31)
    assert all(len(cells) == 6 for each in (PUBLISHED_TABLE, PUBLISHED_TABLE_2) for cells in each.values())


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


def test_json_goes_there_and_back(table):
    assert Table.from_json(table.to_json()) == table
    assert json.loads(table.to_json())["measured"][0]["cells"]["raw"][0]["mean"] == 0.5749


def test_json_of_something_else_is_an_error(table):
    with pytest.raises(FileFormatError, match="expected format 1"):
        Table.from_json("{}")
    with pytest.raises(FileFormatError, match="expected format 1"):
        Table.from_json("[]")


def test_no_cell_is_nan(table):
    assert not re.search(r"\bnan\b", table.text() + table.markdown() + table.to_json(), re.IGNORECASE)


@pytest.mark.parametrize(
    ("value", "printed"),
    [(0.694, ".69"), (-0.114, "−.11"), (1.0, "1.00"), (-1.0, "−1.00"), (0.0, ".00"), (-0.001, ".00"), (None, "–")],
)
def test_numbers_look_as_in_the_paper(value, printed):
    assert decimals(value) == printed
