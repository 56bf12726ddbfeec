"""Plug-ins come in together: a bad one is named at every lookup, and takes no good one away in silence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from attnx.attribution import REFERENCES
from attnx.benchmarks import SUITES
from attnx.errors import RegistryError
from attnx.graph import EDGE_WEIGHTS
from attnx.methods import METHODS
from attnx.registry import Registry


@dataclass(frozen=True)
class Row:
    name: str


@dataclass(frozen=True)
class Entry:
    """An entry point of a package that is not installed."""

    name: str
    thing: object

    @property
    def value(self):
        return f"package_of_{self.name}:row"

    def load(self):
        return self.thing


@pytest.fixture
def registry_with(monkeypatch):
    def made(*entries):
        monkeypatch.setattr("attnx.registry.entry_points", lambda group: entries)
        registry = Registry("fruit", row=Row)
        registry.add("apple", Row("apple"))
        return registry

    return made


def test_good_plug_ins_stand_behind_the_built_ins(registry_with):
    registry = registry_with(Entry("pear", Row("pear")), Entry("plum", Row("plum")))
    assert registry.names() == ("apple", "pear", "plum")


@pytest.mark.parametrize("bad", [Entry("stone", print), Entry("stone", Row("rock")), Entry("apple", Row("apple"))])
def test_a_bad_plug_in_is_named_at_every_lookup(registry_with, bad):
    registry = registry_with(bad, Entry("pear", Row("pear")))
    for _ in range(3):
        with pytest.raises(RegistryError, match=f"plug-in '{bad.value}' for fruit '{bad.name}'"):
            registry.names()


def test_a_fixed_plug_in_brings_the_others_with_it(registry_with, monkeypatch):
    good = Entry("pear", Row("pear"))
    registry = registry_with(good, Entry("stone", print))
    with pytest.raises(RegistryError):
        registry.names()
    monkeypatch.setattr("attnx.registry.entry_points", lambda group: (good,))
    assert registry.names() == ("apple", "pear")


def test_two_plug_ins_of_one_name_are_told(registry_with):
    registry = registry_with(Entry("pear", Row("pear")), Entry("pear", Row("pear")))
    with pytest.raises(RegistryError, match="'pear' is registered already"):
        registry.names()


def test_a_plug_in_may_be_made_of_a_built_in(registry_with):
    class PerturbedInputs(Entry):
        def load(self):
            assert registry["apple"] == Row("apple")
            return Row(self.name)

    registry = registry_with(PerturbedInputs("pear", None))
    assert registry.names() == ("apple", "pear")


@pytest.mark.parametrize("registry", [METHODS, EDGE_WEIGHTS, REFERENCES, SUITES], ids=lambda registry: registry._noun)
def test_a_bare_function_is_refused(registry):
    with pytest.raises(RegistryError, match=r"must be of type [A-Z]\w+, found <built-in function print>; wrap"):
        registry.add("mine", print)


@pytest.mark.parametrize("registry", [METHODS, EDGE_WEIGHTS, REFERENCES, SUITES], ids=lambda registry: registry._noun)
def test_a_row_is_added_by_its_own_name(registry):
    row = registry[registry.names()[0]]
    with pytest.raises(RegistryError, match=f"'mine' has the name '{row.name}'"):
        registry.add("mine", row)
