"""Packages that are missing or too old are named, with the command that mends them."""

from importlib import metadata

import pytest

from attnx.doctor.checks import NAMED, NEEDED, optional_parts, versions


@pytest.fixture
def installed(monkeypatch):
    """Other versions than the real ones; None for a package that is not there."""
    changed = {}
    real = metadata.version

    def version(name):
        if changed.get(name, "") is None:
            raise metadata.PackageNotFoundError(name)
        return changed.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)
    return changed


def line(name):
    (found,) = [one for one in (*versions(), *optional_parts()) if one.name == name]
    return found


def test_here_every_version_is_fine():
    assert {one.status for one in versions()} == {"fine"}
    assert [one.name for one in versions()] == ["attnx", "Python", *NAMED, "other packages"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(("version", "found"), [(None, "is not installed"), ("0.0.1", "0.0.1 is not >=")])
def test_a_named_package_that_is_missing_or_too_old_is_broken(installed, name, version, found):
    installed[name] = version
    assert line(name).status == "broken"
    assert f"{name} {found}" in line(name).found
    assert line(name).advice == f"pip install --upgrade {name}"
    assert line(name).stops_explain == (name in NEEDED) == (name != "captum")


@pytest.mark.parametrize(("name", "needed"), [("tokenizers", True), ("scipy", False)])
def test_any_other_package_that_is_missing_is_broken(installed, name, needed):
    installed[name] = None
    assert line("other packages").found == f"{name} is not installed"
    assert line("other packages").stops_explain == needed


def test_optional_parts_are_never_broken(installed):
    installed |= {"pandas": None, "datasets": "4.0", "bertviz": "1.4"}
    assert line("optional parts").status == "note"
    assert line("optional parts").advice == "pip install pandas for to_frame()"
    installed["pandas"] = "3.0"
    assert line("optional parts").status == "fine"


def test_a_build_for_one_processor_and_a_build_before_a_release_are_new_enough(installed):
    installed |= {"torch": "2.13.0+cpu", "transformers": "5.0.0rc1"}
    assert line("torch").status == line("transformers").status == "fine"
