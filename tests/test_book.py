"""The docs as a site: built without a warning, read without a network, searched from disk, a gallery of real pages."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mkdocs") is None, reason='the site is built by mkdocs: pip install ".[docs]"'),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as CONTRIBUTING says, where every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_asks_anything_of_another_host(site, browser, scheme):
    page = browser.new_page(color_scheme=scheme)
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("index.html", "reference.html", "gallery.html", "weightings/alti.html"):
        page.goto((site / name).as_uri())
        page.wait_for_load_state("load")
    assert asked
    assert [one for one in asked if not one.startswith(("file:", "data:", "about:"))] == []
    assert errors == []
    page.close()


def test_search_finds_a_word_from_disk(site, browser):
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("receptive field")
    page.locator(".md-search-result__article").first.wait_for()
    assert "Decoders" in page.locator(".md-search-result__list").inner_text()
    page.close()


def test_a_narrow_page_does_not_scroll_sideways(site, browser):
    page = browser.new_page(viewport={"width": 380, "height": 800})
    for name in ("index.html", "truth.html", "reference.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, name
    page.close()


def test_the_gallery_shows_what_attnx_wrote(site):
    pages = sorted((site / "gallery").glob("*.html"))
    assert len(pages) >= 8
    for page in pages:
        assert page.stat().st_size <= 300_000, page.name
        assert "Content-Security-Policy" in page.read_text(encoding="utf-8"), page.name


def test_every_link_and_anchor_of_the_site_leads_somewhere(site):
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = [
        f"{path.relative_to(site.resolve())} → {link}"
        for path, page in pages.items()
        for link in page.links
        if not leads_somewhere(path, link, pages)
    ]
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert broken == []


def leads_somewhere(path, link, pages):
    file, _, anchor = link.partition("#")
    target = (path.parent / unquote(file)).resolve() if file else path
    if anchor and target in pages:
        return unquote(anchor) in pages[target].anchors
    return target.exists()


class Page(HTMLParser):
    """The anchors that a page has, and its links to files of the site."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        links = {given[name] for name in ("href", "src") if given.get(name)}
        self.links |= {one for one in links if not re.match(r"[a-z]+:|//|#?$", one)}
