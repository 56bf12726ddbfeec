"""What a package index is told: a description that can be read there, and a changelog by release."""

import doctest
import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attnx

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def hook():
    pytest.importorskip("hatchling", reason="the build is hatchling's: pip install hatchling")
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_with_a_home_every_link_and_picture_of_the_description_leads_there(hook):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = hook.description(readme, "https://host/attnx", "0.2.0")
    links = LINK.findall(told)
    assert len(links) == len(LINK.findall(readme))
    assert [one for one in links if not one.startswith("https://")] == []
    assert "](https://host/attnx/raw/v0.2.0/docs/images/page.png)" in told
    assert "](https://host/attnx/blob/v0.2.0/docs/page.md)" in told


def test_without_a_home_no_link_of_the_description_is_broken_and_no_word_is_lost(hook):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = hook.description(readme, "", "0.2.0")
    assert [one for one in LINK.findall(told) if not one.startswith("https://")] == []
    words = re.compile(r"\w+")
    assert words.findall(told) == words.findall(re.sub(r"\]\((?!http)[^)]*\)", "", readme))


def test_the_home_stands_in_one_place(hook):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    home = settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["home"]
    assert {"readme", "urls"} <= set(settings["project"]["dynamic"])
    assert hook.urls("https://host/attnx")["Homepage"] == "https://host/attnx"
    for name in ("README.md", "CONTRIBUTING.md", "mkdocs.yml", "attnx/__init__.py"):
        assert not home or home not in (ROOT / name).read_text(encoding="utf-8")
    assert doctest.testmod(hook).failed == 0


def test_the_changelog_goes_by_release_the_newest_first():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    versions = [one.split()[0] for one in releases if one != "Unreleased"]
    assert "Unreleased" not in releases[1:]
    assert versions == sorted(versions, key=lambda one: tuple(map(int, one.split("."))), reverse=True)
    assert versions[0] == attnx.__version__


@pytest.mark.parametrize(
    ("name", "unfit", "works"),
    [
        ("typer", "0.15.4", "0.16.0"),  # older ones fail at `X | None`, or at --help with click 8.2
        ("pillow", "10.2.0", "10.3.0"),  # a buffer overflow, CVE-2024-28219
        ("jinja2", "3.1.5", "3.1.6"),  # a way out of the sandbox, CVE-2025-27516
        ("tqdm", "4.66.2", "4.66.3"),  # code from command-line arguments, CVE-2024-34062
    ],
)
def test_versions_that_fail_or_are_unsafe_are_not_installed(name, unfit, works):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    assert unfit not in requirements[name]
    assert works in requirements[name]


def test_the_ray_extra_can_reach_a_cluster_by_its_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (ray,) = (one for one in map(Requirement, project["optional-dependencies"]["ray"]) if one.name == "ray")
    assert ray.extras == {"client"}
    assert "2.51" not in ray.specifier
    assert "2.52" in ray.specifier
