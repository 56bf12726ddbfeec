"""The layered graph of an explanation: every position at every layer."""

import dataclasses

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

import attnx
from attnx.errors import InputError
from attnx.views import plots as layered_graph
from attnx.views.plots import HIGHLIGHT, MOST_POSITIONS, THICKEST
from tests import zoo
from tests.made import with_scores
from tests.views.rows import explanation


@pytest.fixture(scope="module")
def whole():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to the cabinets", all_queries=True)


def lines(axes):
    """(column and row of both ends) → width."""
    (drawn,) = (one for one in axes.collections if isinstance(one, LineCollection))
    ends = [tuple(map(tuple, path.vertices.astype(int).tolist())) for path in drawn.get_paths()]
    return dict(zip(ends, drawn.get_linewidths(), strict=True)), dict(zip(ends, drawn.get_colors(), strict=True))


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_width_is_the_share_of_the_relevance(whole, method):
    widths, _ = lines(whole.plot_graph(method))
    shares = whole.attributions[method].matrices / whole.attributions[method].matrices.sum(-1, keepdims=True)
    for ((layer, key), (_, query)), width in widths.items():
        assert width == pytest.approx(THICKEST * shares[layer, query, key] / shares.max(), rel=1e-5)
    assert len(widths) == (shares > layered_graph.FAINTEST * shares.max()).sum()


def test_the_explained_positions_lines_stand_out(whole):
    axes = dataclasses.replace(whole, position=2).plot_graph()
    for ((_, _), (_, query)), colour in lines(axes)[1].items():
        assert (tuple(colour[:3]) == to_rgba(HIGHLIGHT)[:3]) == (query == 2)


def test_nodes_have_their_tokens_and_columns_their_layers(whole):
    axes = whole.plot_graph(ax=Figure().subplots())
    assert [label.get_text() for label in axes.get_yticklabels()] == list(whole.tokens)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["input", "1", "2", "3"]


def test_one_layer_of_raw_attention_stands_on_the_one_below():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", all_queries=True, layer=2)
    below = {name: one.plot_graph(name).get_xticklabels()[0].get_text() for name in ("raw", "rollout", "flow")}
    assert below == {"raw": "1", "rollout": "input", "flow": "input"}


def test_without_maps_it_says_how_to_get_them(explained):
    with pytest.raises(InputError, match=r"explain\(\.\.\., all_queries=True\)"):
        explained.plot_graph()


def large(length):
    scores = np.arange(1, length).tolist()
    made = explanation(*(f"t{number}" for number in range(1, length)), scores=scores)
    return with_scores(made, maps={"rollout": np.full((1, length, length), 1 / length)})


def test_many_positions_are_reduced_to_those_that_matter_and_it_says_so():
    axes = large(MOST_POSITIONS + 40).plot_graph()
    tokens = [label.get_text() for label in axes.get_yticklabels()]
    assert tokens == ["[CLS]", *(f"t{number}" for number in range(41, MOST_POSITIONS + 40))]
    assert f"the strongest {MOST_POSITIONS} of {MOST_POSITIONS + 40} positions" in axes.get_xlabel()


def test_many_lines_are_reduced_to_the_strongest_and_it_says_so(monkeypatch):
    monkeypatch.setattr(layered_graph, "MOST_LINES", 50)
    axes = large(10).plot_graph()
    assert len(lines(axes)[0]) == 50
    assert "the strongest 50 of 100 lines" in axes.get_xlabel()


def test_it_says_what_its_lines_are():
    one = attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", methods=["raw", "rollout"], all_queries=True
    )
    assert "what a node attends to in the layer below" in one.plot_graph("raw").get_xlabel()
    assert "the input at its left end" in one.plot_graph("rollout").get_xlabel()
