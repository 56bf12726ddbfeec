"""An explanation to draw, and no figure left open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import attnx
from tests import zoo

TEXT = "The key to the cabinets, unaffordable!"


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="session")
def explained() -> attnx.Explanation:
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT)
