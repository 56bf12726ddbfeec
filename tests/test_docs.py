"""Every snippet of README and docs runs: Python in one namespace a page, `attnx` commands through the command line.

Every link inside the repository leads to a file, and to a heading of it where it names one.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from attnx.cli.main import main
from attnx.graph import EDGE_WEIGHTS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
RUN_FIRST = ROOT / "README.md"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def named(page):
    return page.relative_to(ROOT).as_posix()


RUN_LATER = [pytest.param(page, marks=pytest.mark.slow, id=named(page)) for page in PAGES if page != RUN_FIRST]


@pytest.mark.parametrize("page", [RUN_FIRST, *RUN_LATER], ids=named)
def test_snippets_run(page, tmp_path, monkeypatch, no_hub, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(code, page.name, "exec"), namespace)
            continue
        for line in code.splitlines():
            if line.startswith("attnx "):
                run(line, monkeypatch)


def run(line, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0, line


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_and_pictures_exist(page):
    for target, heading in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        met = page.parent / target if target else page
        assert met.exists(), target
        assert not heading or heading in anchors(met), f"{target}#{heading}"


def anchors(page):
    """The names of a page's headings as GitHub makes them: `## What it costs` is `what-it-costs`."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)]
    return {f"{name}-{names[:place].count(name)}".removesuffix("-0") for place, name in enumerate(names)}


def test_every_page_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        met = {(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text(encoding="utf-8"))}
        waiting += [one for one in met - reached if one.suffix == ".md"]
    assert set(PAGES) <= reached


def test_every_weighting_has_a_row_with_a_page():
    overview = (ROOT / "docs" / "weightings.md").read_text(encoding="utf-8")
    for name in EDGE_WEIGHTS.names():
        assert re.search(rf"^\| \[`{name}`\]\(weightings/", overview, re.MULTILINE), name


def test_the_readme_has_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 'pip install -c constraints.txt . && attnx explain "the key to the cabinets"' in text
    assert 'pip install -c constraints.txt -e ".[test]" && pytest' in text
