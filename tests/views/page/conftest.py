"""Pages that are watched in a browser, and results that need no model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import attnx
from attnx.adapters import Position, group_words
from attnx.evaluation import Faithfulness
from tests import zoo
from tests.made import explanation as made_explanation

TEXT = "The key to the cabinets, unaffordable!"


@dataclass
class Seen:
    """What a page did that it must not do."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@pytest.fixture
def watched(browser):
    """Open a page of a width and colour scheme; whatever it complains of or asks for fails the test at its end."""
    contexts, seen = [], Seen()

    def open_tab(**options):
        context = browser.new_context(**{"viewport": {"width": 1180, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: seen.errors.append(str(error)))
        tab.on("request", lambda request: seen.requests.append(request.url))
        tab.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        return tab

    yield open_tab
    for context in contexts:
        context.close()
    outside = [
        url for url in seen.requests if not url.endswith("/report.html") and not url.startswith(("data:", "about:"))
    ]
    assert (seen.errors, outside, seen.dialogs) == ([], [], [])


@pytest.fixture
def opened(watched, tmp_path):
    """Write results to a file and open it from disk."""

    def open_file(results, **options):
        path = tmp_path / "report.html"
        attnx.to_html(results, path)
        tab = watched(**options)
        tab.goto(path.as_uri())
        tab.locator("#page").wait_for()
        tab.evaluate("() => new Promise(requestAnimationFrame)")  # the sections are drawn in the frame before
        return tab

    return open_file


@pytest.fixture(scope="session")
def explanation():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, all_queries=True)


def faithful(texts=8):
    """Faithfulness of two explainers, the first better than chance by far."""
    random = np.random.default_rng(0)
    means = {"rollout": 0.6, "gradient": 0.3, "random": 0.3}
    curve = {name: np.linspace(1, mean, 11) for name, mean in means.items()}
    values = {name: mean + 0.1 * random.random((texts, 4)) for name, mean in means.items()}
    return Faithfulness(values=values, layer=6, score="probability", deletion=curve, insertion=curve, orders=10)


def made(*tokens, layers=2, maps=False, scores=None, heads=None):
    """An explanation of given tokens, with random numbers where none are given."""
    positions, words = group_words([Position(0, "[CLS]", special=True), *(
        Position(index, token) for index, token in enumerate(tokens, start=1)
    )], None)  # fmt: skip
    length = len(positions)
    random = np.random.default_rng(0)
    whole = random.dirichlet(np.full(length, 0.3), size=(layers, length if maps else 1))
    rows = whole[:, 0] if scores is None else np.tile([0.0, *scores], (layers, 1))
    if heads is not None:
        rows = random.dirichlet(np.full(length, 0.3), size=(layers, heads))
    return made_explanation(
        positions,
        words,
        position=0,
        layers=tuple(range(1, layers + 1)),
        relevance={name: rows.copy() for name in ("rollout", "flow")},
        maps={name: whole.astype("float32") for name in ("rollout", "flow")} if maps else None,
    )
