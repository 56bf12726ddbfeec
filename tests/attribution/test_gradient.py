"""Gradients are the slopes that finite differences find."""

import numpy as np
import pytest
import torch
from transformers import (
    CanineConfig,
    CanineForSequenceClassification,
    DebertaConfig,
    DebertaForSequenceClassification,
    GPT2ForSequenceClassification,
    IBertConfig,
    IBertForSequenceClassification,
)

from attnx import explain
from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, blankout, cases, gradient
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.linearize import matmul as linear_map
from tests import verb_number_zoo as zoo
from tests import zoo as families


def finite_differences(prepared, score):
    """position × width, by moving each number of each embedding a little; in double precision."""
    model = zoo.model().double()
    try:
        with torch.no_grad():
            embedded = model.get_input_embeddings()(prepared.inputs["input_ids"])[None]
            slope = torch.zeros_like(embedded[0])
            for place in np.ndindex(*slope.shape):
                ends = []
                for sign in (1, -1):
                    moved = embedded.clone()
                    moved[(0, *place)] += sign * 1e-4
                    ends.append(score(model(inputs_embeds=moved).logits[0]))
                slope[place] = (ends[0] - ends[1]) / 2e-4
    finally:
        model.float()
    return slope.numpy()


def asked(prepared, **options):
    return cases(zoo.model(), zoo.tokenizer(), prepared, **options)


@pytest.mark.parametrize(
    ("reduction", "reduce"),
    [
        ("sum", lambda slope: slope.sum(-1)),
        ("absolute sum", lambda slope: np.abs(slope.sum(-1))),
        ("norm", lambda slope: np.sqrt((slope**2).sum(-1))),
    ],
)
def test_each_reduction_of_the_predicted_logit_equals_finite_differences(reduction, reduce):
    prepared = zoo.prepared(zoo.TEXTS[0])
    (case,) = asked(prepared)
    expected = reduce(finite_differences(prepared[0], lambda logits: float(logits[case.target.index])))
    (found,) = gradient(zoo.model(), zoo.tokenizer(), [case], reduction=reduction)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-3, atol=1e-5)


def test_the_difference_of_probabilities_equals_finite_differences():
    prepared = zoo.prepared(zoo.TEXTS[3])
    slope = finite_differences(
        prepared[0], lambda logits: float(logits.softmax(-1) @ torch.tensor([1.0, -1.0]).double())
    )
    (found,) = gradient(
        zoo.model(),
        zoo.tokenizer(),
        asked(prepared, target=("singular", "plural")),
        score="probability",
        reduction="absolute sum",
    )
    np.testing.assert_allclose(found.scores, np.abs(slope.sum(-1)), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["gradient", "input_x_gradient", "integrated_gradients"])
def test_batching_and_padding_change_nothing(name):
    together = REFERENCES[name](zoo.model(), zoo.tokenizer(), asked(zoo.prepared()))
    for one, found in zip(zoo.prepared(), together, strict=True):
        (alone,) = REFERENCES[name](zoo.model(), zoo.tokenizer(), asked([one]))
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-4, atol=1e-6)


def test_integrated_gradients_add_up_to_the_change_of_the_logit():
    (case,) = asked(zoo.prepared(zoo.TEXTS[0]))
    (found,) = REFERENCES["integrated_gradients"](zoo.model(), zoo.tokenizer(), [case], steps=128)
    ids = case.prepared.inputs["input_ids"].clone()[None]
    with torch.no_grad():
        whole = zoo.model()(ids).logits[0, case.target.index]
        ids[0, case.content] = zoo.tokenizer().unk_token_id
        baseline = zoo.model()(ids).logits[0, case.target.index]
    assert found.scores.sum() == pytest.approx(float(whole - baseline), abs=0.02)
    assert found.facts["convergence_delta"] == pytest.approx(found.scores.sum() - float(whole - baseline), abs=1e-4)


def test_the_signed_gradients_of_two_classes_differ():
    prepared = zoo.prepared(zoo.TEXTS[0])
    one, other = (
        gradient(zoo.model(), zoo.tokenizer(), asked(prepared, target=target), reduction="sum")[0].scores
        for target in (0, 1)
    )
    assert not np.allclose(one, other)


def test_a_classifier_on_a_decoder_is_not_padded_where_it_cannot_find_the_padding():
    model, tokenizer = families.causal_lm(), families.bytelevel_tokenizer()
    config = type(model.config).from_dict({**model.config.to_dict(), "pad_token_id": 0, "num_labels": 2})
    torch.manual_seed(0)
    classifier = GPT2ForSequenceClassification(config).eval()
    prepare = adapter_for(classifier).prepare
    prepared = [prepare(classifier, tokenizer, text) for text in ("the key", "the key to the cabinets")]
    together = gradient(classifier, tokenizer, cases(classifier, tokenizer, prepared))
    for one, found in zip(prepared, together, strict=True):
        (alone,) = gradient(classifier, tokenizer, cases(classifier, tokenizer, [one]))
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-4, atol=1e-7)
        assert found.scores.any()


def test_the_model_is_as_it_was():
    model = zoo.model()
    model.train()
    try:
        for name in REFERENCES:
            REFERENCES[name](model, zoo.tokenizer(), asked(zoo.prepared("keys")))
        assert all(module.training for module in model.modules())
        assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
        assert not families.observed(model)
    finally:
        model.eval()


def test_gradients_flow_even_where_the_caller_turned_them_off():
    with torch.no_grad():
        assert gradient(zoo.model(), zoo.tokenizer(), asked(zoo.prepared("keys")))[0].scores.any()


def test_what_does_not_exist_is_an_error_that_says_what_does():
    one = asked(zoo.prepared("keys"))
    with pytest.raises(ChoiceError, match="reduction 'nrm' is not known; there are: sum, absolute sum, norm"):
        gradient(zoo.model(), zoo.tokenizer(), one, reduction="nrm")
    with pytest.raises(ChoiceError, match="score 'odds' is not known"):
        gradient(zoo.model(), zoo.tokenizer(), one, score="odds")
    with pytest.raises(ChoiceError, match="baseline '\\[MSK\\]' is no token of this tokenizer"):
        REFERENCES["integrated_gradients"](zoo.model(), zoo.tokenizer(), one, baseline="[MSK]")


class IdsAlone(type(zoo.model())):
    """As CLIP's text tower: it takes no embeddings."""

    def forward(self, input_ids=None, attention_mask=None):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask)


@pytest.mark.parametrize("name", ["gradient", "integrated_gradients"])
def test_a_model_that_takes_ids_alone_has_the_gradients_of_the_rows_that_it_embeds(name):
    model = IdsAlone(zoo.model().config).eval()
    model.load_state_dict(zoo.model().state_dict())
    found, wanted = (
        REFERENCES[name](one, zoo.tokenizer(), cases(one, zoo.tokenizer(), zoo.prepared("the keys")))[0]
        for one in (model, zoo.model())
    )
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-4, atol=1e-6)
    assert found.scores.any()


def test_a_model_that_needs_ids_beside_embeddings_gets_both():
    """DeepSeek-V4 sends tokens to experts by their ids, I-BERT embeds to a pair."""

    class NeedsIds(type(zoo.model())):
        def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
            assert input_ids.ndim == 2
            return super().forward(input_ids=input_ids, attention_mask=attention_mask)

    model = NeedsIds(zoo.model().config).eval()
    model.load_state_dict(zoo.model().state_dict())
    (found,) = gradient(model, zoo.tokenizer(), cases(model, zoo.tokenizer(), zoo.prepared("the keys")))
    (wanted,) = gradient(zoo.model(), zoo.tokenizer(), asked(zoo.prepared("the keys")))
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-4)
    tokenizer = families.wordpiece_tokenizer()
    ibert = IBertForSequenceClassification(IBertConfig(vocab_size=len(tokenizer), pad_token_id=0, **families.WIDTH))
    assert explain(ibert.eval(), tokenizer, "a witty film", references="gradient")["gradient"].any()


def test_a_model_that_names_no_embedding_is_refused_with_what_works():
    tokenizer = families.wordpiece_tokenizer()
    sizes = {"downsampling_rate": 2, "local_transformer_stride": 8, "upsampling_kernel_size": 2, "num_hash_buckets": 50}
    model = CanineForSequenceClassification(CanineConfig(max_position_embeddings=64, **sizes, **families.WIDTH)).eval()
    with pytest.raises(AttnxError, match=r"names no module that embeds its input.*use methods of attention itself"):
        explain(model, tokenizer, "a witty film", methods="gradient_rollout")


def test_a_model_that_embeds_ids_in_a_way_of_its_own_is_sent_to_blank_out():
    class Hidden(IdsAlone):
        def get_input_embeddings(self):
            return torch.nn.Embedding(*super().get_input_embeddings().weight.shape)

    model = Hidden(zoo.model().config).eval()
    prepared = cases(model, zoo.tokenizer(), zoo.prepared("keys"))
    with pytest.raises(InputError, match=r"takes no inputs_embeds.*use methods=\['blankout'\]"):
        gradient(model, zoo.tokenizer(), prepared)
    assert blankout(model, zoo.tokenizer(), prepared)[0].scores.any()


def test_a_model_that_answers_embeddings_otherwise_is_refused():
    class Other(type(zoo.model())):
        def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
            scaled = None if inputs_embeds is None else 3 * inputs_embeds
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=scaled)

    model = Other(zoo.model().config).eval()
    with pytest.raises(InputError, match="answers differently to inputs_embeds than to the same input_ids"):
        gradient(model, zoo.tokenizer(), cases(model, zoo.tokenizer(), zoo.prepared("keys")))


def test_a_sum_that_is_nothing_but_rounding_is_remarked():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    e = explain(model, tokenizer, "a witty film", references={"gradient": {"reduction": "sum"}})
    assert any("zero in this model but for rounding" in note for note in e.notes)
    assert not explain(model, tokenizer, "a witty film", references="gradient").notes


def test_gradients_flow_in_inference_mode_and_leave_it_on():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    expected = explain(model, tokenizer, "a witty film", references=tuple(REFERENCES))
    with torch.inference_mode():
        found = explain(model, tokenizer, "a witty film", references=tuple(REFERENCES))
        assert torch.is_inference_mode_enabled()
    for name in REFERENCES:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


@pytest.mark.parametrize("name", ["gradient", "integrated_gradients", "gradient_shap", "occlusion", "feature_ablation"])
def test_no_batch_has_more_logits_than_fit(monkeypatch, name):
    model, tokenizer = families.masked_lm(), families.wordpiece_tokenizer()
    prepare = adapter_for(model).prepare
    prepared = [prepare(model, tokenizer, text) for text in ("a [MASK] film", "the key to the [MASK]", "hello [MASK]")]
    asked_of = cases(model, tokenizer, prepared)
    most = 16 * len(tokenizer)
    monkeypatch.setattr("attnx.hooks.batching._LOGITS_AT_ONCE", most)
    sizes = []
    handle = model.register_forward_hook(lambda module, given, output: sizes.append(output.logits.numel()))
    try:
        REFERENCES[name](model, tokenizer, asked_of)
    finally:
        handle.remove()
    assert 0 < max(sizes) <= most


class Scaled(type(zoo.model())):
    """It scales its embeddings, by a tensor of its own."""

    def scaled(self, embedded):
        return embedded * 3

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        return super().forward(attention_mask=attention_mask, inputs_embeds=self.scaled(embedded))


class ScaledInPlace(Scaled):
    """As CTRL does, in the tensor that it is given."""

    def scaled(self, embedded):
        embedded *= 3
        return embedded


@pytest.mark.parametrize("name", list(REFERENCES))
def test_a_model_may_change_in_place_what_it_is_given(name):
    models = [kind(zoo.model().config).eval() for kind in (Scaled, ScaledInPlace)]
    found = []
    for model in models:
        model.load_state_dict(zoo.model().state_dict())
        torch.manual_seed(0)
        asked = cases(model, zoo.tokenizer(), zoo.prepared("the key to the cabinets"))
        found.append(REFERENCES[name](model, zoo.tokenizer(), asked)[0].scores)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-7)
    assert found[0].any()


def test_what_a_linear_map_gives_may_be_changed_in_place(monkeypatch):
    """DeBERTa adds a bias to the transposed output of its map, whichever library made it."""
    tokenizer = families.wordpiece_tokenizer()
    relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16}
    config = DebertaConfig(vocab_size=len(tokenizer), **relative, **families.WIDTH)
    torch.manual_seed(0)
    model = DebertaForSequenceClassification(config).eval()
    found = []
    for quick in (False, True):
        monkeypatch.setattr(linear_map, "can_use_onednn", lambda *tensors, quick=quick: quick)
        found.append(explain(model, tokenizer, "a witty film", references="gradient")["gradient"])
    np.testing.assert_allclose(*found, rtol=1e-4)
