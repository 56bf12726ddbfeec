"""A table over trainings keeps each model's table, and computes what is told over models."""

from __future__ import annotations

import numpy as np
import pytest

from attnx.errors import ChoiceError, InputError
from attnx.paper.table import PaperTable
from attnx.paper.tables import PUBLISHED
from examples.training.study import ALL, CLAIMS, SubjectTrainings, Trainings
from tests.results import examples


def model(**means):
    """A table of as many layers as there are numbers for each method; sentences lie around their mean."""
    published = {"raw": ((0.5, 0.1), (0.1, 0.1)), "rollout": ((0.3, 0.1), (0.6, 0.1)), "flow": ((0.3, 0.1), (0.7, 0.1))}
    around = np.array([[-1.0], [1.0]])
    layers = len(means["raw"])
    return PaperTable(
        values={name: np.array(mean) + around * (0.2 + np.array(mean) / 10) for name, mean in means.items()},
        columns=PUBLISHED.columns(layers),
        title="Table 1",
        reference="blank-out",
        published=published,
        protocols=(PUBLISHED,),
        tied={"published": (0.0,) * layers},
        source="a file",
        accuracy=0.9,
    )


@pytest.fixture
def trainings():
    """In the first two flow is above rollout; in the third raw is above rollout at layer 2."""
    return Trainings(
        {
            "p-0": model(raw=(0.5, 0.0), rollout=(0.3, 0.4), flow=(0.3, 0.6)),
            "p-1": model(raw=(0.7, 0.2), rollout=(0.3, 0.5), flow=(0.3, 0.6)),
            "q-0": model(raw=(0.6, 0.4), rollout=(0.3, 0.3), flow=(0.3, 0.1)),
        },
        {"p-0": "p", "p-1": "p", "q-0": "q"},
    )


def test_a_cell_has_a_number_from_each_model_of_the_recipe(trainings):
    assert trainings.cell("p", "published", "raw", 2).values == pytest.approx((0.0, 0.2))
    assert trainings.cell(ALL, "published", "raw", 2).values == pytest.approx((0.0, 0.2, 0.4))
    assert trainings.between_sentences("p", "published", "raw", 2) == pytest.approx(0.21)


def test_claims_are_counted_by_model_and_averaged_over_them(trainings):
    flow, raw = CLAIMS
    margin, holds = trainings.claim(flow, ALL, "published")
    assert margin.values == pytest.approx((0.2, 0.1, -0.2))
    assert holds == 2
    margin, holds = trainings.claim(raw, ALL, "published")
    assert margin.values == pytest.approx((0.4, 0.3, -0.1))
    assert holds == 2


def test_the_luck_of_a_training_is_the_mean_deviation_of_the_papers_cells(trainings):
    apart = [0.2, 0.2, 0.0, 0.1, 0.0, 0.0]
    assert trainings.luck("p", "published") == pytest.approx(sum(apart) / 2**0.5 / 6)
    assert trainings.luck("q", "published") is None


def test_parts_merge_into_the_whole(trainings):
    def part(*names):
        return Trainings({one: trainings.tables[one] for one in names}, {one: trainings.recipes[one] for one in names})

    assert Trainings.merge([part("p-0"), part("p-1", "q-0")]).to_json() == trainings.to_json()
    with pytest.raises(InputError, match="p-0 is in two of the parts"):
        Trainings.merge([trainings, part("p-0")])
    other = Trainings({"r": examples.table()}, {"r": "r"})
    with pytest.raises(InputError, match="a table over models is of one kind and shape: q-0 has Table 1, published"):
        Trainings.merge([trainings, other])


def test_a_recipe_that_is_not_there_is_named(trainings):
    with pytest.raises(ChoiceError, match="'mine'"):
        trainings.cell("mine", "published", "raw", 1)


def test_a_study_is_read_back_as_it_was_saved(trainings):
    assert Trainings.from_json(trainings.to_json()).to_json() == trainings.to_json()
    with pytest.raises(InputError, match="there is no model"):
        Trainings({}, {})


def test_rows_are_of_each_model_method_and_layer(trainings):
    rows = trainings.rows()
    assert len(rows) == 3 * 3 * 2
    assert trainings.to_csv().count("\n") >= len(rows)
    assert "| raw | published |" in trainings.to_markdown()


def test_shares_of_the_subject_over_models():
    study = SubjectTrainings({name: examples.subject_table() for name in ("a-1", "a-2")}, {"a-1": "a", "a-2": "a"})
    assert "recipe a: 2 models" in study.to_text()
    assert len(study.rows()) == 2 * 2 * 3
    assert [axes.get_title() for axes in study.plot().axes] == ["right predictions", "wrong predictions"]


def test_what_is_read_says_what_is_missing(trainings):
    text = trainings.to_text()
    assert "recipe p: 2 models, 2 sentences of a file" in text
    assert "a range of two says little of where a third would come out" in text
    assert "One model tells nothing of how another training would come out." in text
    assert "all recipes: 3 models" in text
    assert "95 % prediction interval" in text
    lines = [line.split() for line in text.split("recipe p")[1].splitlines()]
    assert ["raw", "published", ".50", ".10"] in lines
    assert ["mean", "of", "models", ".60", ".10"] in lines
    assert ["±", "between", "models", ".14", ".14"] in lines
    assert ["the", "paper", "is", "within", "within"] in lines
    assert ["the", "paper", "is", "within", "above"] in lines


def test_a_dot_for_each_model_and_a_line_for_the_paper(trainings):
    panels = trainings.plot().axes
    assert [ax.get_title() for ax in panels] == ["raw, published", "rollout, published", "flow, published"]
    paper, first, second = panels[0].lines[:3] if len(panels[0].lines) > 3 else panels[0].lines
    assert paper.get_ydata().tolist() == [0.5, 0.1]
    assert sorted(first.get_ydata()) == [0.0, 0.2, 0.5, 0.7]
    assert sorted(second.get_ydata()) == [0.4, 0.6]
