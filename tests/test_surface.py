"""What users build on is what a stored file says, and every public name shows how it is used."""

import doctest
import inspect

import numpy as np
import pytest

import attnx
from tests import surface


def test_the_public_surface_is_the_stored_one():
    """After a change that was meant: `python -m tests.surface`, and a line in the changelog."""
    assert surface.surface() == surface.STORED.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", attnx.__all__)
def test_a_public_name_has_an_example_that_runs(name):
    thing = getattr(attnx, name)
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    run = [one for one in examples if not one.options.get(doctest.SKIP)]
    assert run, f"attnx.{name} has no example"
    known = {"np": np, "attnx": attnx, **{one: getattr(attnx, one) for one in attnx.__all__}}
    told: list[str] = []
    case = doctest.DocTest(examples, known, name, None, 0, None)
    failed = (
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        .run(case, out=told.append, clear_globs=False)
        .failed
    )
    assert not failed, "".join(told)


def test_what_is_cited_is_this_version():
    cited = (surface.STORED.parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {attnx.__version__}\n" in cited
