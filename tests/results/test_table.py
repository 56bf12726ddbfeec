"""A table of the paper keeps all digits of what was measured, and under which protocol."""

import json

import pytest

from attnx.errors import FileFormatError
from attnx.paper.table import Table
from attnx.paper.tables import CORRECTED, PUBLISHED_TABLE_3
from tests.results import examples


def test_json_has_all_digits():
    table = examples.table()
    assert json.loads(table.to_json())["measured"][0]["cells"]["raw"][0]["mean"] == 0.5749
    assert Table.from_json(table.to_json()).measured[0].protocol == CORRECTED


def test_json_of_another_version_is_an_error():
    with pytest.raises(FileFormatError, match="expected format 1 or 2, found 9"):
        Table.from_json('{"format": 9}')


def test_a_protocol_says_what_was_done():
    assert CORRECTED.describe("blank-out") == (
        "content positions blanked; content positions ranked; average ranks; undefined examples left out"
    )
    assert PUBLISHED_TABLE_3.describe("input gradients").startswith(
        "signed sum of ∂logit(positive)/∂embedding (position embedding and LayerNorm applied twice)"
    )
