"""Methods give the same numbers on attention that is computed in blocks as on attention that is held."""

import pytest
import torch

import attnx
from attnx.attention import ComputedLayer
from attnx.attention import layers as layers
from attnx.errors import ChoiceError
from attnx.hooks.capture import capture
from tests import zoo

ASKED = [
    {"position": -1},
    {"position": 5, "layer": 2},
    {"position": 4, "head": 2},
    {"position": 7, "head": "all"},
    {"position": 3, "head": "max"},
    {"position": 3, "head": "min", "layer": 3},
    {"position": 6, "residual": 0.2},
    {"position": 6, "residual": 0.0},
    {"position": 6, "residual": 1.0},
    {"position": [12, 0, 6, 0]},
    {"position": [5, 2], "head": "all", "normalize": "receptive_field"},
    {"layer": 3},
    {"head": "all"},
    {"head": 1, "layer": 2},
    {"position": -1, "normalize": "receptive_field"},
    {"position": 4, "normalize": "receptive_field", "head": "all", "residual": 0.2},
    {"normalize": "receptive_field"},
    {"position": -1, "normalize": "column"},
    {"position": 4, "normalize": "column", "head": 1},
    {"normalize": "column"},
    {},
]


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(layers, "MAX_BLOCK_ELEMENTS", 120)


@pytest.fixture(scope="module", params=["bert", "gpt2", "llama", "mistral", "modernbert", "t5", "bloom"])
def both(request):
    inputs = zoo.inputs(request.param, 13)
    return capture(zoo.model(request.param), **inputs), capture(zoo.model(request.param), held=False, **inputs)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_raw_and_rollout_are_the_same(both, asked):
    held, long = both
    for method in (attnx.raw, attnx.rollout):
        one, other = method(long, **asked), method(held, **asked)
        assert one.dtype == other.dtype == torch.float64
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_rollout_down_to_a_layer_is_the_same(both):
    held, long = both
    torch.testing.assert_close(
        attnx.rollout(long, down_to=2, position=4), attnx.rollout(held, down_to=2, position=4), atol=1e-5, rtol=0
    )


def test_the_sink_is_dropped_alike(both):
    held, long = both
    for asked in ({"position": -1}, {"normalize": "receptive_field", "residual": 0.3}, {"normalize": "column"}):
        if held.causal:
            one, other = (attnx.rollout(kind, drop_sink=True, **asked) for kind in (long, held))
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
        else:
            with pytest.raises(ChoiceError, match="first token of a decoder"):
                attnx.rollout(long, drop_sink=True, **asked)


def test_flow_reads_the_whole_map_where_it_is_short(both):
    held, long = both
    one_head = {"position": 5, "head": "all", "layer": 3}
    for asked in ({"position": -1}, one_head, {"position": -1, "normalize": "receptive_field"}):
        torch.testing.assert_close(attnx.flow(long, **asked), attnx.flow(held, **asked), atol=1e-5, rtol=0)


def test_rows_that_no_query_reads_are_not_computed(monkeypatch):
    long = capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 13))
    read = []
    rows = ComputedLayer.rows
    monkeypatch.setattr(ComputedLayer, "rows", lambda self, *span: (read.append(span), rows(self, *span))[1])
    attnx.rollout(long, layer=3, position=5)
    assert max(start for start, _ in read) <= 5


def test_errors_are_those_of_any_attention(both):
    _, long = both
    with pytest.raises(ChoiceError, match="layer 7 was requested, but the model has 3"):
        attnx.rollout(long, layer=7)
    with pytest.raises(ChoiceError, match="head 9 was requested, but the model has 4"):
        attnx.raw(long, head=9)
