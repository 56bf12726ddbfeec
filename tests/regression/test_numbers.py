"""What attnx computes is what it computed once: to 1e-12, flow to 1e-9, single precision to 1e-6."""

from __future__ import annotations

import numpy as np
import pytest

from tests.regression import numbers_file
from tests.regression.cases import GROUPS
from tests.regression.drift import PLAIN, ROUNDING, apart, drift, models
from tests.regression.group import EXACT, Group, Numbers

OF_02_ALONE = {
    "saved/comparison.json": None,
    "saved/faithfulness.json": None,
    "saved/head_atlas.json": None,
    "saved/table1.json": None,
    "mistakes": "explain {'methods': 'gradient'}",
}
"""Groups of the file, or cases in them, that have no counterpart: old formats, and an error that is none any more."""

STORED = {
    group: {name: stored for name, stored in cases.items() if name != OF_02_ALONE.get(group)}
    for group, cases in numbers_file.read().items()
    if OF_02_ALONE.get(group, "") is not None
}


@pytest.mark.parametrize(
    "group",
    [pytest.param(group, id=name, marks=[pytest.mark.slow] if group.slow else []) for name, group in GROUPS.items()],
)
def test_no_number_has_changed(group: Group) -> None:
    lines = numbers_file.differences(group.run(), STORED[group.name], drift(group.model, STORED[PLAIN]))
    assert not lines, f"{len(lines)} cases of {group.name}\n" + "\n".join(lines)


def test_the_file_has_these_groups_and_no_other() -> None:
    assert set(STORED) == {PLAIN, *GROUPS}
    assert set(STORED[PLAIN]) == set(models())


@pytest.mark.slow
@pytest.mark.parametrize("name", models())
def test_the_models_are_those_of_the_file(name: str) -> None:
    assert apart(name, STORED[PLAIN][name]) < ROUNDING


def test_a_change_of_any_one_number_is_seen() -> None:
    values = np.random.RandomState(0).uniform(size=(3, 4, 17, 17))
    before = {"case": numbers_file.Print.of(values)}
    for place in np.ndindex(values.shape):
        changed = values.copy()
        changed[place] += 3e-12
        assert numbers_file.differences({"case": Numbers(changed, EXACT)}, before)
    assert not numbers_file.differences({"case": Numbers(values * (1 + 1e-15), EXACT)}, before)


def test_missing_new_and_reshaped_cases_are_seen() -> None:
    before = {
        "gone": "ChoiceError",
        "shape": numbers_file.Print.of(np.ones((2, 3))),
        "nan": numbers_file.Print.of(np.ones(2)),
    }
    now = {"new": "x", "shape": Numbers(np.ones((3, 2)), EXACT), "nan": Numbers(np.array([1, np.nan]), EXACT)}
    assert [line.partition(":")[0] for line in numbers_file.differences(now, before)] == ["gone", "new", "shape", "nan"]
