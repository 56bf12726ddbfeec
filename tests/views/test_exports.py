"""What other tools take: BertViz the model's own attention, head by head, and Captum records for its text view."""

import copy
import math
import re

import pytest
import torch

import attnx
from attnx.demo_models.dates import load_demo
from attnx.errors import InputError
from tests import zoo
from tests.views.rows import explanation

TEXT = "the key to the cabinets"


@pytest.fixture(scope="module")
def each():
    return attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods=["raw", "rollout"], head="all", all_queries=True
    )


def test_attention_is_the_models_own(each):
    tokenizer = zoo.wordpiece_tokenizer()
    attention = attnx.capture(zoo.classifier(), **tokenizer(TEXT, return_tensors="pt"))
    given = each.to_bertviz()
    assert given["tokens"] == list(each.tokens)
    assert [layer.shape for layer in given["attention"]] == [(1, 4, 7, 7)] * 3
    torch.testing.assert_close(torch.cat(given["attention"]), attention.weights, rtol=0, atol=1e-6)


def test_other_methods_take_the_same_place(each):
    (first, *_) = each.to_bertviz("rollout")["attention"]
    torch.testing.assert_close(first[0], torch.tensor(each.attributions["rollout"].matrices[0]))


def test_merged_heads_are_one_head():
    merged = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods="rollout", all_queries=True)
    assert merged.to_bertviz()["attention"][0].shape == (1, 1, 7, 7)


def test_the_second_text_of_a_pair_is_told_apart():
    pair = attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), ("the key", "a table"), all_queries=True, methods="raw"
    )
    given = pair.to_bertviz()
    assert given["tokens"][given["sentence_b_start"] :] == ["a", "table", "[SEP]"]


def test_an_encoder_decoder_has_its_three_kinds_of_attention():
    model, tokenizer = load_demo()
    one = attnx.explain(
        model, tokenizer, "march 3 1998", target_text="1998 03", methods="raw", head="all", all_queries=True
    )
    given = one.to_bertviz()
    assert given["encoder_tokens"] == ["march", "3", "1998", "<eos>"]
    assert given["decoder_tokens"] == ["<bos>", "1998", "03"]
    eager = zoo.grad_mode(copy.deepcopy(model), "eager")
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(given["decoder_tokens"])])
    output = eager(**tokenizer("march 3 1998", return_tensors="pt"), decoder_input_ids=ids, output_attentions=True)
    for kind in ("encoder", "decoder", "cross"):
        wanted = output[f"{kind}_attentions"]
        assert len(given[f"{kind}_attention"]) == len(wanted) == 2
        torch.testing.assert_close(torch.cat(given[f"{kind}_attention"]), torch.cat(wanted), rtol=0, atol=1e-5)


def test_without_maps_it_says_how_to_get_them():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods="raw")
    with pytest.raises(InputError, match='methods="raw", head="all", all_queries=True'):
        one.to_bertviz()


@pytest.mark.parametrize("view", ["head_view", "model_view"])
def test_bertviz_draws_it(each, view):
    bertviz = pytest.importorskip("bertviz", reason="bertviz is not installed")
    page = getattr(bertviz, view)(**each.to_bertviz(), html_action="return").data
    assert '"cabinets"' in page
    drawn = re.search(r'"attn": \[\[\[\[([\d.e-]+),', page).group(1)
    assert float(drawn) == pytest.approx(float(each.attributions["raw"].matrices[0, 0, 0, 0]), abs=1e-6)


def test_the_words_have_their_scores_scaled_to_the_strongest():
    record = explanation("key", "to", scores=[0.4, 0.1]).to_captum()
    assert record.raw_input_ids == ["key", "to"]
    torch.testing.assert_close(record.word_attributions, torch.tensor([1.0, 0.25], dtype=torch.float64))
    assert record.attr_score == pytest.approx(0.5)


def test_the_prediction_is_the_models():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key")
    record = one.to_captum("raw", 2, true_class="NEGATIVE")
    assert (record.pred_class, record.pred_prob) == (one.prediction.label, one.prediction.probability)
    assert record.true_class == "NEGATIVE"
    assert record.attr_score == pytest.approx(sum(word.score for word in one.by_word("raw", 2)))


def test_a_model_without_a_head_has_no_class():
    record = explanation("key").to_captum()
    assert record.pred_class == "–"
    assert math.isnan(record.pred_prob)


def test_captum_draws_it():
    visualization = pytest.importorskip("captum.attr", reason="captum is not installed").visualization
    pytest.importorskip("IPython", reason="Captum draws in notebooks, and IPython is not installed")
    page = visualization.visualize_text([explanation("key", "<img/src=x>", "to", scores=[0.4, 0.0, 0.1]).to_captum()])
    assert "hsl(120, 75%, 50%)" in page.data
    assert "&lt;img/src=x&gt;" in page.data
    assert "<img" not in page.data


def test_no_relevance_is_no_division_by_zero():
    assert explanation("key", scores=[0.0]).to_captum().word_attributions.tolist() == [0.0]
