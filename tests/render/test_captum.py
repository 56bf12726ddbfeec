"""Records for Captum's text view."""

import math

import pytest
import torch

import attnx
from tests import zoo
from tests.render.rows import explanation

visualization = pytest.importorskip("captum.attr", reason="captum is not installed").visualization


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
    pytest.importorskip("IPython", reason="Captum draws in notebooks, and IPython is not installed")
    page = visualization.visualize_text([explanation("key", "<img/src=x>", "to", scores=[0.4, 0.0, 0.1]).to_captum()])
    assert "hsl(120, 75%, 50%)" in page.data
    assert "&lt;img/src=x&gt;" in page.data
    assert "<img" not in page.data


def test_no_relevance_is_no_division_by_zero():
    assert explanation("key", scores=[0.0]).to_captum().word_attributions.tolist() == [0.0]
