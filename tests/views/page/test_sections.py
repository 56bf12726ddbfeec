"""A section is a folder and a row: nothing else knows of it."""

import re
from pathlib import Path

import numpy as np
import pytest

from attnx.errors import InputError
from attnx.views import SECTIONS, to_html
from attnx.views.page import page as whole
from attnx.views.page.page import scripts
from tests.made import with_scores
from tests.results import examples
from tests.views.page.conftest import faithful, made
from tests.views.page.test_page import data_in

FOLDER = Path(whole.__file__).parent / "sections"
NAMES = list(SECTIONS)


def test_every_folder_is_a_row_and_has_its_parts():
    folders = sorted(one.name for one in FOLDER.iterdir() if one.is_dir() and one.name != "__pycache__")
    assert folders == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_sections_script_and_template_have_its_name(name):
    script = (FOLDER / name / "section.js").read_text(encoding="utf-8")
    template = (FOLDER / name / "section.html.jinja").read_text(encoding="utf-8")
    assert script.count("attnx.sections.push(") == 1
    assert f'name: "{name}"' in script
    assert re.match(rf'<section [^>]*id="{name}" hidden', template)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_no_script_knows_a_method_by_name(method):
    assert not any(re.search(rf"""["'`]{method}["'`]""", script) for script in scripts(tuple(NAMES)))


SHOWN = {
    "explanation": {"text", "trust", "layers", "graph", "agreement", "details"},
    "generation": {"generation"},
    "comparison": {"summary"},
    "faithfulness": {"faithfulness"},
    "recommendation": {"tables"},
    "atlas": {"atlas"},
    "probe": {"tables"},
    "report": {"tables"},
    "table": {"tables"},
    "subject_table": {"tables"},
    "evaluation_table": {"tables"},
    "suite": {"tables"},
    "truth": {"truth"},
    "similarity": {"alignment", "text", "trust", "layers", "graph", "agreement", "details"},
    "run_summary": {"tables"},
    "side_by_side": {"side_by_side", "text", "trust", "layers", "graph", "agreement", "details"},
    "word_alignment": {"alignment"},
}


@pytest.mark.parametrize("make", examples.EXAMPLES, ids=lambda make: make.__name__)
def test_only_sections_with_something_to_show_are_in_the_page(make):
    page = to_html(make())
    assert set(data_in(page)) - {"results"} == SHOWN[make.__name__]
    assert {name for name in NAMES if f'id="{name}"' in page} == SHOWN[make.__name__]


def test_results_of_several_kinds_share_a_page():
    page = data_in(to_html([examples.explanation(), examples.table(), examples.atlas(), faithful()]))
    assert {"tables", "atlas", "faithfulness", "text"} < set(page)
    assert len(page["results"]) == 1


def test_two_results_of_a_kind_that_has_one_place_are_refused():
    with pytest.raises(InputError, match="one comparison, found 2"):
        to_html([examples.comparison(), examples.comparison()])


def test_trust_has_the_diagnostics_of_the_layers_that_are_in_the_page():
    deep = made(*("a" for _ in range(1999)), layers=48)
    shares = tuple(np.linspace(0, 1, 48))
    deep = with_scores(deep, diagnostics={"flow": {"saturation": shares}}, sink=shares)
    page = data_in(deep.to_html())
    kept = [shares[layer - 1] for layer in page["results"][0]["layers"]]
    assert page["trust"]["results"][0]["diagnostics"]["flow"]["saturation"] == kept
    assert page["trust"]["results"][0]["sink"] == kept


def test_trust_has_the_accounts_of_methods_and_references():
    told = {"rollout": {"account": "1 = a"}, "gradient": {"account": "2 = b"}}
    one = with_scores(made("key"), references={"gradient": np.array([0.0, 1.0])}, diagnostics=told)
    found = data_in(to_html(one))["trust"]["results"][0]["accounts"]
    assert found == {"rollout": "1 = a", "gradient": "2 = b"}


def test_tables_stand_in_the_page_where_no_script_runs():
    page = to_html(examples.table())
    for block in ("Table 1, blank-out, protocol corrected", ".55±.05", "Content positions blanked"):
        assert block in page.partition('<main id="page"')[0]
