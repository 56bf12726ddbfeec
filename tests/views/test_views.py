"""`import attnx` fills the table from kind of result to view, and loads nothing of a view before it is used."""

import pytest

from attnx import view_registry as views
from attnx.errors import RegistryError
from attnx.results import VIEWS
from tests.children import python
from tests.results import examples


def test_a_view_is_loaded_once():
    assert VIEWS["similarity"]() is VIEWS["similarity"]() is views.similarity()


def test_a_taken_kind_is_an_error():
    with pytest.raises(RegistryError, match="view 'similarity' is registered already"):
        VIEWS.add("similarity", views.similarity)


def test_what_only_an_explanation_can_do_is_named_as_its_methods():
    more = VIEWS["explanation"]().more
    assert set(more) == {"plot_layers", "plot_graph", "overlay", "to_bertviz", "to_captum"}
    assert all(hasattr(examples.explanation(), name) for name in more)


def test_importing_attnx_fills_the_table_and_loads_no_view(children):
    code = (
        "import sys, attnx; from attnx.results.base import VIEWS; print(len(VIEWS.names()));"
        "print({'rich.console', 'jinja2', 'matplotlib', 'pandas', 'attnx.views.table', 'attnx.views.page.page'}"
        " & set(sys.modules))"
    )
    assert children.run(python(code)).stdout == f"{len(examples.EXAMPLES)}\nset()\n"
