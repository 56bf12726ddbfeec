"""ProphetNet predicts in streams of its own: two calls of a layer are one map, and the first stream's rows answer."""

import numpy as np
import pytest
import torch

import attnx
from attnx.errors import AttnxError
from attnx.hooks.record import join_predicting_streams
from tests import streams_zoo, zoo

SOURCE, TOKENS = 7, 5
GIVEN = {"source": "the key to", "target_text": "the book"}


@pytest.fixture(scope="module")
def model():
    return streams_zoo.model("prophetnet")


@pytest.fixture(scope="module")
def attention(model):
    return attnx.capture(model, **streams_zoo.inputs("prophetnet", SOURCE, TOKENS))


def explain(model, **options):
    return attnx.explain(model, zoo.wordpiece_tokenizer(), GIVEN["source"], target_text=GIVEN["target_text"], **options)


def test_weights_of_every_stack_equal_the_models_own(model, attention):
    """Of the encoder and of cross-attention the model returns scores before their softmax."""
    with torch.no_grad():
        told = model(**streams_zoo.inputs("prophetnet", SOURCE, TOKENS), output_attentions=True)
    assert attention.kinds == ("encoder", "encoder", *("self", "cross") * 2)
    assert (attention.copies, attention.tokens) == (3, SOURCE + TOKENS)
    output = slice(SOURCE, None)
    for number, scores in zip(attention.layers_of_kind("encoder"), told.encoder_attentions, strict=True):
        seen = attention.weights[number - 1][:, :SOURCE, :SOURCE]
        torch.testing.assert_close(seen, scores[0].softmax(-1), atol=1e-5, rtol=0)
    for number, scores in zip(attention.layers_of_kind("cross"), told.cross_attentions, strict=True):
        seen = attention.weights[number - 1][:, output, :SOURCE]
        torch.testing.assert_close(seen, scores[0].softmax(-1), atol=1e-5, rtol=0)
    for layer, number in enumerate(attention.layers_of_kind("self")):
        seen = attention.weights[number - 1][:, output, output]
        main, further = told.decoder_attentions[layer][0], told.decoder_ngram_attentions[layer][0]
        torch.testing.assert_close(seen[:, :TOKENS, :TOKENS], main, atol=1e-5, rtol=0)
        for sequence in range(2):
            own = slice((1 + sequence) * TOKENS, (2 + sequence) * TOKENS)
            torch.testing.assert_close(seen[:, own, :TOKENS], further[sequence][..., :TOKENS], atol=1e-5, rtol=0)
            torch.testing.assert_close(seen[:, own, own], further[sequence][..., TOKENS:], atol=1e-5, rtol=0)


def test_rows_sum_to_one_and_no_position_sees_a_later_one_of_its_stream(attention):
    rolled = attnx.rollout(attention)[-1]
    torch.testing.assert_close(rolled.sum(-1), torch.ones(attention.length, dtype=rolled.dtype))
    assert attention.written == slice(SOURCE, attention.length)
    first, second = (attention.weights[2][:, SOURCE + sequence * TOKENS + 1, SOURCE:] for sequence in (1, 2))
    assert float(first[:, 1].min()) > 0  # it has read the second token
    assert float(second[:, 1].abs().max()) == 0  # it predicts the one behind the next, from the first token
    assert float(first[:, 2:TOKENS].abs().max()) == 0


def test_the_first_stream_answers_for_the_tokens(model):
    e = explain(model, methods=("raw", "rollout", "flow"), normalize=None, all_queries=True)
    tokenizer = zoo.wordpiece_tokenizer()
    written = [model.config.decoder_start_token_id, *tokenizer(GIVEN["target_text"])["input_ids"]]
    written = written[:-1] if written[-1] == tokenizer.sep_token_id else written
    ids = {"decoder_input_ids": torch.tensor([written])}
    attention = attnx.capture(model, **tokenizer(GIVEN["source"], return_tensors="pt"), **ids)
    tokens, length = attention.tokens, len(written)
    assert len(e.positions) == tokens == attention.length - 2 * length
    for method in ("raw", "rollout", "flow"):
        expected = getattr(attnx, method)(attention, position=tokens - 1 + length)[..., :tokens]
        np.testing.assert_allclose(e[method], expected, atol=1e-6)
        np.testing.assert_allclose(e.matrix(method)[:, -1], e[method], atol=1e-6)
    with torch.no_grad():
        assert e.prediction.index == int(
            model(**tokenizer(GIVEN["source"], return_tensors="pt"), **ids).logits[0, -1].argmax()
        )


def test_references_reach_both_streams_and_add_up(model):
    e = explain(model, methods="rollout", references=("lrp", "gradient", "blankout"))
    facts = e.attributions["lrp"].diagnostics
    parts = float(e["lrp"].sum()) + facts["sink"] + facts["biases"]
    assert parts == pytest.approx(facts["value"], abs=1e-4)
    for name in ("lrp", "gradient", "blankout"):
        source, output = np.split(np.abs(e[name]), [e.sequences["source"]])
        assert min(source.max(), output.max()) > 0


def test_what_it_writes_is_explained(model):
    tokenizer = zoo.wordpiece_tokenizer()
    g = attnx.explain_generation(model, tokenizer, GIVEN["source"], max_new_tokens=3, methods="rollout")
    ids = torch.tensor([tokenizer(GIVEN["source"])["input_ids"]])
    written = model.generate(input_ids=ids, max_new_tokens=3, do_sample=False)
    assert [one.index for one in g.predictions] == written[0, 1:].tolist()
    assert g["rollout"].shape == (len(g), len(g.positions) - 1)


@pytest.mark.parametrize("method", ["alti", "norm_rollout", "gradient_rollout"])
def test_what_needs_the_values_is_refused_with_the_reason(model, method):
    with pytest.raises(AttnxError, match="written by two calls"):
        explain(model, methods=method)


def test_other_calls_of_five_axes_are_not_taken_for_streams():
    weights, values = torch.rand(1, 2, 3, 3), torch.rand(1, 2, 3, 4)
    further = torch.rand(1, 2, 2, 3, 6)
    beside = torch.cat([values, torch.rand(1, 2, 3, 4)], 2)[:, None].expand(-1, 2, -1, -1, -1)
    assert join_predicting_streams(weights, values, further, beside) is not None
    assert join_predicting_streams(weights, values, further, torch.rand(1, 2, 2, 6, 4)) is None
    assert join_predicting_streams(weights, values, further[..., :5], beside[..., :5, :]) is None
