"""The result: frozen, keyed by position, saved and loaded without loss."""

import dataclasses
import json

import numpy as np
import pytest

import attnx
from attnx.errors import AttentionError, AttnxError, ChoiceError
from attnx.views.text import plain
from tests import zoo
from tests.made import with_scores

TEXT = "The key to the cabinets, unaffordable!"


@pytest.fixture(scope="module")
def explanation():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT)


def test_it_cannot_be_changed(explanation):
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.position = 3
    with pytest.raises(ValueError, match="read-only"):
        explanation["rollout"][0, 0] = 1


def test_what_says_how_far_to_trust_it_is_kept_by_method(explanation):
    told = {"flow": {"saturation": (0.1, 0.2, 0.3), "tied": (0.4, 0.5, 0.6)}}
    one = with_scores(explanation, diagnostics=told)
    assert one.attributions["flow"].diagnostics["saturation"] == (0.1, 0.2, 0.3)
    assert (one.tied("flow"), one.tied("flow", 1)) == (0.6, 0.4)
    assert one.tied("raw") == explanation.tied("raw")
    with pytest.raises(AttentionError, match="saturation of flow must be 3 numbers, one a layer"):
        with_scores(explanation, diagnostics={"flow": {"saturation": (0.1,)}})


def test_it_knows_whether_positions_see_later_ones(explanation):
    assert not explanation.causal
    assert attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key", methods="raw").causal


def test_a_words_score_is_the_sum_over_its_pieces(explanation):
    word = next(one for one in explanation.by_word("raw", 2) if one.text == "unaffordable")
    assert word.positions == (7, 8, 9, 10)
    assert word.score == pytest.approx(explanation["raw"][1, 7:11].sum())


def test_words_and_special_tokens_share_out_the_whole(explanation):
    special = [one.index for one in explanation.positions if one.special]
    words = sum(one.score for one in explanation.by_word("rollout"))
    assert words + explanation.scores("rollout")[special].sum() == pytest.approx(1)


def test_top_is_sorted_and_leaves_special_tokens_out(explanation):
    top = explanation.top(3)
    scores = sorted((one.score for one in explanation.by_word()), reverse=True)
    assert [one.score for one in top] == scores[:3]
    assert not {"[CLS]", "[SEP]"} & {one.text for one in explanation.top(99)}


def test_ties_are_counted_after_rounding(explanation):
    scores = np.array([[0.1, 0.1 + 1e-12, 0.2, 0.3, 0.3, 0.3, *range(1, 8)]])
    tied = with_scores(explanation, layers=(1,), relevance={"flow": scores}, diagnostics={})
    assert tied.tied("flow") == pytest.approx(5 / 13)


def test_as_a_dict_it_is_json(explanation):
    plain = json.loads(json.dumps(explanation.to_dict()))
    assert plain["attributions"]["rollout"]["scores"] == explanation["rollout"].tolist()
    assert plain["provenance"]["versions"]["attnx"] == attnx.__version__
    assert plain["provenance"]["class"] == "BertForSequenceClassification"


def test_as_a_frame_it_has_a_row_for_each_number(explanation):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = explanation.to_frame()
    assert len(frame) == sum(explanation[name].size for name in ("raw", "rollout", "flow"))
    row = frame[(frame.method == "raw") & (frame.layer == 3) & (frame.position == 8)].iloc[0]
    assert (row.token, row.word, row.score) == ("##aff", "unaffordable", explanation["raw"][2, 8])
    each = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, head="all").to_frame()
    assert set(each["head"]) == {0, 1, 2, 3}


def test_printed_it_shows_every_word_with_its_score(explanation):
    lines = str(explanation).splitlines()
    assert "lrp, measured on the model" in lines[0]
    words = len(explanation.words)
    assert [line.split()[0] for line in lines[2 : words + 2]] == [word.text for word in explanation.words]
    assert lines[1].startswith("lrp: measured by lrp alone")
    assert f"{explanation.by_word()[1].score:.3f}"[:5] in lines[3]
    assert "rollout at layer 3" in plain(explanation, "rollout")


def test_where_nobody_chose_the_value_path_is_first_and_a_layer_means_rollout(explanation):
    assert explanation.methods == ("lrp", "rollout", "raw", "flow")
    np.testing.assert_array_equal(explanation.scores(), explanation["lrp"])
    np.testing.assert_array_equal(explanation.scores(layer=2), explanation["rollout"][1])
    chosen = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", methods=["raw", "rollout"])
    assert chosen.methods == ("raw", "rollout")


def test_what_nobody_asked_for_and_cannot_be_measured_is_left_out_with_a_note():
    headless = attnx.explain(zoo.model("bert"), zoo.wordpiece_tokenizer(), zoo.inputs("bert"))
    assert headless.methods == ("rollout", "raw", "flow")
    assert "lrp was left out: the model has no head" in headless.notes[-1]


def test_what_was_not_computed_is_named(explanation):
    with pytest.raises(ChoiceError, match="'flux' is not known; there are: lrp, rollout, raw, flow"):
        explanation["flux"]
    with pytest.raises(ChoiceError, match="layer 9 was requested"):
        explanation.scores(layer=9)


def test_numbers_that_are_none_are_refused(explanation):
    with pytest.raises(AttnxError, match="must be finite numbers"):
        with_scores(explanation, relevance={"raw": explanation["raw"] * np.nan})


def test_maps_hold_every_position_and_survive_a_file(explanation, tmp_path):
    whole = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, all_queries=True)
    assert all(scores.matrices is None for scores in explanation.attributions.values())
    for name in ("raw", "rollout", "flow"):
        np.testing.assert_allclose(whole[name], explanation[name], rtol=0, atol=1e-12)
        np.testing.assert_allclose(whole.attributions[name].matrices[:, whole.position], whole[name], rtol=0, atol=1e-7)
    third = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, position=3)
    np.testing.assert_allclose(whole.attributions["flow"].matrices[:, 3], third["flow"], rtol=0, atol=1e-7)
    whole.save(tmp_path / "x.safetensors")
    loaded = attnx.Explanation.load(tmp_path / "x.safetensors")
    assert loaded == whole


def test_maps_of_one_layer_have_an_axis_of_one():
    one = attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", all_queries=True, layer=2, methods="rollout"
    )
    assert one.attributions["rollout"].matrices.shape == (1, 4, 4)


def test_maps_of_every_head_have_an_axis_for_them():
    each = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", all_queries=True, head="all")
    second = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", all_queries=True, head=2)
    assert each.attributions["flow"].matrices.shape == (3, 4, 4, 4)
    for name in ("raw", "rollout", "flow"):
        np.testing.assert_allclose(each.matrix(name, head=2), second.matrix(name), rtol=0, atol=1e-6)
        np.testing.assert_allclose(each.matrix(name), each.attributions[name].matrices.mean(1), rtol=0, atol=1e-6)
        np.testing.assert_allclose(each.matrix(name)[:, each.position], each[name].mean(1), rtol=0, atol=1e-6)
    with pytest.raises(ChoiceError, match="head 4 was requested, but the explanation has 4 heads"):
        each.matrix("raw", head=4)


def test_a_map_that_was_not_kept_says_how_to_keep_it(explanation):
    with pytest.raises(AttnxError, match=r"explain\(\.\.\., all_queries=True\)"):
        explanation.matrix("raw")


def test_maps_of_a_decoder_are_normalised_as_its_rows_are():
    whole = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to it", all_queries=True)
    third = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to it", position=3)
    for name in ("raw", "rollout", "flow"):
        np.testing.assert_allclose(whole.attributions[name].matrices[:, 3], third[name], rtol=0, atol=1e-6)


def test_a_map_of_another_shape_is_refused(explanation):
    with pytest.raises(AttnxError, match="the matrices of raw must be 3 × 13 × 13"):
        with_scores(explanation, maps={"raw": np.zeros((3, 13, 12))})


def test_a_head_of_merged_heads_is_an_error_that_says_how_to_keep_them(explanation):
    with pytest.raises(ChoiceError, match="head 2 was requested, but heads were merged; explain"):
        explanation.scores("rollout", head=2)
