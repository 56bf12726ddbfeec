"""Every snippet of README and docs runs: Python in one namespace a page, `attnx` commands through the command line."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from attnx.cli.main import main

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
RUN_FIRST = ROOT / "README.md"
RUN_LATER = [pytest.param(page, marks=pytest.mark.slow, id=page.name) for page in PAGES if page != RUN_FIRST]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


@pytest.mark.parametrize("page", [RUN_FIRST, *RUN_LATER], ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_has_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 'pip install -c constraints.txt . && attnx explain "the key to the cabinets"' in text
    assert 'pip install -c constraints.txt -e ".[test]" && pytest' in text
