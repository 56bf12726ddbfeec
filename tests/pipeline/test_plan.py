"""Long inputs: `explain` computes rows from queries and keys, and says the same as on the ordinary road."""

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.attention import layers as layers
from attnx.errors import CostError
from attnx.methods import METHODS, asked_methods
from attnx.methods import flow as flow_module
from attnx.methods.flow import estimated_seconds
from attnx.pipeline import options as plan
from attnx.pipeline import pipeline as seam
from tests import zoo
from tests.benchmarks.capture import NoTokenizer

ROWS = ("raw", "rollout")


@pytest.fixture
def long_road(monkeypatch):
    """Everything above four positions is long, and read in blocks of a few rows."""
    monkeypatch.setattr(plan, "LONG_INPUT", 4)
    monkeypatch.setattr(layers, "MAX_BLOCK_ELEMENTS", 200)


def explain(name, **options):
    return attnx.explain(zoo.model(name), NoTokenizer(), zoo.inputs(name, 13), methods=ROWS, **options)


FAMILIES = ["bert", "gpt2", "gpt_neo", "llama", "mistral", "gemma2", "gemma3", "modernbert", "bloom"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("options", [{}, {"head": "all"}, {"head": 1, "layer": 2}, {"head": "max", "position": 6}])
def test_the_long_road_says_the_same(name, options, monkeypatch, request):
    ordinary = explain(name, **options)
    request.getfixturevalue("long_road")
    long = explain(name, **options)
    assert (long.position, long.layers) == (ordinary.position, ordinary.layers)
    for method in ROWS:
        np.testing.assert_allclose(long[method], ordinary[method], atol=1e-5)


@pytest.mark.parametrize("options", [{"normalize": None}, {"normalize": "column"}, {"drop_sink": True}])
def test_decoders_are_treated_alike_on_both_roads(options, request):
    ordinary = {name: explain(name, **options) for name in ("gpt2", "mistral")}
    request.getfixturevalue("long_road")
    for name, one in ordinary.items():
        for method in ROWS:
            np.testing.assert_allclose(explain(name, **options)[method], one[method], atol=1e-5)


def test_attention_is_not_held(long_road, monkeypatch):
    seen = []
    made = seam.Relevance
    monkeypatch.setattr(seam, "Relevance", lambda attention, *rest: (seen.append(attention), made(attention, *rest))[1])
    explain("gpt2")
    assert seen[0].held == ()


@pytest.mark.parametrize("position", [None, 3])
def test_a_language_model_answers_where_it_is_asked_only(position, long_road, monkeypatch):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    text = "the key to the cabinets"
    logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    widths = []
    model.lm_head.register_forward_hook(lambda _, __, output: widths.append(output.shape[1]))
    one = attnx.explain(model, tokenizer, text, methods=ROWS, position=position)
    model.lm_head._forward_hooks.clear()
    assert set(widths) == {1}
    place = len(logits) - 1 if position is None else position
    assert one.prediction.index == int(logits[place].argmax())


def test_a_classifier_answers_as_before(request):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    texts = ["the key to the cabinets", "hello", "the movie is a plain, dull and bad film"]
    ordinary = attnx.explain(model, tokenizer, texts, methods=ROWS)
    request.getfixturevalue("long_road")
    for one, other in zip(attnx.explain(model, tokenizer, texts, methods=ROWS), ordinary, strict=True):
        assert one.text == other.text
        np.testing.assert_allclose(one["rollout"], other["rollout"], atol=1e-5)
        np.testing.assert_allclose(one.prediction.logits, other.prediction.logits, atol=1e-5)


def test_flow_that_would_take_long_is_left_out_unless_it_was_asked_for():
    config = hf.GPT2Config()
    short, long = (plan.plan(None, length, config, layer=None, head=None) for length in (500, 8192))
    assert ([one.name for one in short.methods], short.held) == (["rollout", "raw", "flow"], True)
    assert ([one.name for one in long.methods], long.held) == (["rollout", "raw"], False)
    assert "flow was left out" in long.notes[0]
    with pytest.raises(CostError, match=r"8192 positions would take about \d+ (hours|minutes).* use rollout"):
        plan.plan((METHODS["flow"],), 8192, config, layer=None, head=None)
    assert plan.plan((METHODS["flow"],), 1200, config, layer=12, head=None).held


def test_flow_over_the_sound_that_whisper_hears_is_left_out():
    """It takes 213 seconds in the smallest of them, 4 + 4 layers over 1,500 positions."""
    tiny = hf.WhisperConfig(encoder_layers=4, decoder_layers=4, d_model=384)
    found = plan.plan(None, 1501, tiny, layer=None, head=None)
    assert [one.name for one in found.methods] == ["rollout", "raw"]
    assert "flow over 1501 positions would take about 3 minutes" in found.notes[0]


def test_flow_names_its_cost_before_it_begins(monkeypatch):
    attention = np.full((4, 1, 16, 16), 1 / 16)
    monkeypatch.setattr(flow_module, "SECONDS_PER_EDGE", 1.0)
    with pytest.raises(CostError, match="16 positions would take about"):
        attnx.flow(attention, position=0)
    assert attnx.flow(attention, position=0, limit=None).shape == (4, 16)
    assert attnx.flow(attention, position=0, layer=2).shape == (16,)


def test_the_estimate_grows_with_what_is_asked():
    assert estimated_seconds([1, 2], 4096) == 0
    assert estimated_seconds([12], 2000) == pytest.approx(8 * estimated_seconds([12], 1000))
    assert estimated_seconds(range(1, 13), 512, 2) == pytest.approx(2 * estimated_seconds(range(1, 13), 512))


@pytest.mark.slow
def test_two_thousand_positions_take_no_map():
    """A map of one layer, all heads, would be 67 MB; each tensor that is kept is a hundredth of that."""
    torch.manual_seed(0)
    config = hf.GPT2Config(vocab_size=120, n_embd=32, n_layer=3, n_head=4, n_positions=2048)
    model = hf.GPT2Model(config).eval()
    ids = torch.randint(5, 120, (1, 2048))
    rows = attnx.explain(model, NoTokenizer(), {"input_ids": ids}, methods="rollout")
    np.testing.assert_allclose(rows["rollout"].sum(1), 1, atol=1e-9)
    attention = attnx.capture(model, head="mean", input_ids=ids)
    expected = attnx.rollout(attention, position=-1, normalize="receptive_field")
    np.testing.assert_allclose(rows["rollout"], expected, atol=1e-5)


BASE = hf.BertConfig()


def planned(name, length, config=BASE, **options):
    return plan.plan(asked_methods(name), length, config, **{"layer": None, "head": None, **options})


@pytest.mark.parametrize("name", ["value_zeroing", "flow:value_zeroing"])
def test_edges_that_run_each_block_again_are_refused_where_they_are_thousands_of_runs(name):
    with pytest.raises(CostError, match=f"{name} over 2000 positions would take about \\d+ (hours|days) on one core"):
        planned(name, 2000)


def test_their_cost_grows_with_the_width_the_layers_and_the_positions_that_are_read():
    assert planned("value_zeroing", 128)
    assert planned("value_zeroing", 2000, layer=1, config=hf.BertConfig(hidden_size=64))
    assert planned("raw:value_zeroing", 2000, layer=12), "one row of one layer"
    assert planned(("rollout", "alti", "gradient_rollout"), 2000)
    with pytest.raises(CostError):
        planned("value_zeroing", 2000, layer=1)


def test_what_is_refused_is_not_begun(monkeypatch):
    monkeypatch.setattr("attnx.graph.value_zeroing._OPERATIONS_A_SECOND", 1.0)
    model = zoo.model("bert")
    handle = model.register_forward_pre_hook(lambda *given: pytest.fail("the model was run"))
    try:
        with pytest.raises(CostError, match="value_zeroing over 13 positions would take about"):
            attnx.explain(model, NoTokenizer(), zoo.inputs("bert", 13), methods="value_zeroing")
    finally:
        handle.remove()
