"""The map of heads: numbers against the methods themselves, and the ways to look at it."""

import json

import matplotlib
import numpy as np
import pytest
from scipy.stats import spearmanr

import attnx
from attnx.errors import ChoiceError, FileFormatError, InputError
from attnx.pipeline import options as plan
from tests import zoo

matplotlib.use("Agg")
TEXTS = ["the key to the cabinets is on a table", "hello world, she said", "a plain, dull and bad film"]


@pytest.fixture(scope="module")
def atlas():
    return attnx.head_atlas(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXTS, against="gradient")


def test_a_head_carries_its_attention_to_other_words(atlas):
    for number, text in enumerate(TEXTS):
        inputs = zoo.wordpiece_tokenizer()(text, return_tensors="pt")
        attention = attnx.capture(zoo.classifier(), **inputs).numpy()
        np.testing.assert_allclose(atlas.head_values("carried")[number], attention[:, :, 0, 1:-1].sum(-1), atol=1e-5)


def test_agreement_is_that_of_the_head_by_itself(atlas):
    for number, text in enumerate(TEXTS):
        one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), text, head="all", references="gradient")
        for layer, head in np.ndindex(3, 4):
            expected = spearmanr(one["rollout"][layer, head, 1:-1], one["gradient"][1:-1]).statistic
            assert atlas.head_values("gradient")[number, layer, head] == pytest.approx(expected, abs=1e-6)


def test_a_grid_is_the_mean_over_the_texts(atlas):
    np.testing.assert_allclose(atlas.grid("gradient"), atlas.head_values("gradient").mean(0))
    assert atlas.cell("carried", "L2 h3").mean == pytest.approx(atlas.head_values()[:, 1, 3].mean())
    best = atlas.best(12)
    assert [one.summary.mean for one in best] == sorted(atlas.grid().ravel(), reverse=True)
    assert atlas.grid()[best[0].layer - 1, best[0].head] == best[0].summary.mean


def test_undefined_agreement_is_counted_and_left_out():
    atlas = attnx.head_atlas(zoo.classifier(), zoo.wordpiece_tokenizer(), ["hello", *TEXTS], against="gradient")
    assert np.isnan(atlas.values["gradient"][0]).all()
    assert not np.isnan(atlas.grid("gradient")).any()
    assert atlas.cell("gradient", "L1 h0").undefined == 1
    assert "Undefined and left out: 12 of 48." in atlas.to_text()
    alone = attnx.head_atlas(zoo.classifier(), zoo.wordpiece_tokenizer(), "hello", against="gradient")
    assert alone.best(by="gradient") == []
    assert "–" in alone.to_text()
    assert len(alone.plot()) == 2


def test_the_first_token_of_a_decoder_is_nothing_to_carry():
    prompt = "the author talked to Sara"
    atlas = attnx.head_atlas(zoo.causal_lm(), zoo.bytelevel_tokenizer(), prompt, against=(), methods="flow")
    attention = attnx.capture(zoo.causal_lm(), **zoo.bytelevel_tokenizer()(prompt, return_tensors="pt")).numpy()
    np.testing.assert_allclose(atlas.head_values("carried")[0], attention[:, :, -1, 1:-1].sum(-1), atol=1e-5)
    assert (atlas.method, atlas.references) == ("flow", ())


def test_it_is_nothing_to_carry_in_a_long_text_either(monkeypatch):
    asked = zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the author talked to Sara"
    options = {"against": (), "methods": "raw", "normalize": None}
    short = attnx.head_atlas(*asked, **options)
    monkeypatch.setattr(plan, "LONG_INPUT", 4)
    np.testing.assert_allclose(attnx.head_atlas(*asked, **options).grid(), short.grid(), atol=1e-5)


def test_it_can_be_read_and_kept(atlas):
    text = atlas.to_text()
    assert text.index("L3") < text.index("L1"), "the last layer is on top"
    assert "Rollout against gradient (spearman), mean of 3 texts" in text
    assert atlas.to_markdown().count("\n|---|") == 2
    again = attnx.HeadAtlas.from_json(atlas.to_json())
    np.testing.assert_array_equal(again.grid("gradient"), atlas.grid("gradient"))
    assert again.to_text() == text
    frame = atlas.to_frame()
    assert list(frame.columns) == ["text", "layer", "head", "carried", "gradient"]
    assert len(frame) == 3 * 3 * 4
    assert repr(atlas) == "HeadAtlas(rollout, 3 layers × 4 heads, 3 texts, spearman with gradient)"


def test_it_is_drawn_on_given_axes(atlas):
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    assert atlas.plot(ax=ax, by="gradient") is ax
    np.testing.assert_allclose(ax.images[0].get_array(), atlas.grid("gradient"))
    pyplot.close("all")


def test_bad_questions_say_what_to_change(atlas):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    for options, message in [
        ({"head": 1}, "leave head= out"),
        ({"measure": "pearson"}, "measure 'pearson' is not known"),
        ({"methods": "rolout"}, "did you mean 'rollout'"),
    ]:
        with pytest.raises(ChoiceError, match=message):
            attnx.head_atlas(model, tokenizer, TEXTS, **options)
    with pytest.raises(InputError, match="at least one"):
        attnx.head_atlas(model, tokenizer, [])
    with pytest.raises(ChoiceError, match="column 'L1 h4' is not known; there are: L1 h0, L1 h1"):
        atlas.cell("carried", "L1 h4")
    with pytest.raises(ChoiceError, match="grid 'blankout' is not known; there are: carried, gradient"):
        atlas.grid("blankout")
    with pytest.raises(FileFormatError, match="expected format"):
        attnx.HeadAtlas.from_json(json.dumps({"format": 9}))
    with pytest.raises(FileFormatError, match="not an atlas"):
        attnx.HeadAtlas.from_json("[]")
    with pytest.raises(InputError, match="head='all'"):
        attnx.HeadAtlas.of([attnx.explain(model, tokenizer, "hello", methods="rollout")])
