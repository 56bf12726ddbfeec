"""Every group of cases, by name."""

from __future__ import annotations

from itertools import chain

from tests.regression import (
    on_arrays,
    on_explanations,
    on_families,
    on_mistakes,
    on_paper,
    on_saved,
    on_studies,
)
from tests.regression.group import Group

GROUPS: dict[str, Group] = {
    group.name: group
    for group in chain.from_iterable(
        topic.groups()
        for topic in (on_arrays, on_families, on_explanations, on_studies, on_paper, on_mistakes, on_saved)
    )
}
