"""Every method with every option, and every bad input: it works, or says in a line what to use instead."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import AttnxError, CaptureError, ChoiceError, InputError
from attnx.methods import METHODS
from tests import zoo

HEAD_KINDS = ("gradient_rollout", "gradient_flow", "alti_logit", "rollout:gradient_signed", "raw:gradient_signed")
SIGNED = ("alti_logit", "rollout:gradient_signed", "raw:gradient_signed")
ALL = (*METHODS.names(), "rollout:norm", "raw:value_zeroing", *SIGNED[1:])
OWN_RESIDUAL = ("norm_rollout", "globenc", "alti", "value_zeroing", "raw:value_zeroing", "gradient_rollout", *SIGNED)
TOGETHER = ("norm_rollout", "globenc", "alti", "alti_logit")
TEXT = "the key to the"


@cache
def explained(**options):
    """A decoder, which all methods can explain."""
    options = {
        name: list(one) if isinstance(one, tuple) and name == "methods" else one for name, one in options.items()
    }
    return attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), TEXT, **{"target": (5, 7), **options})


def test_all_methods_together_tell_which_are_signed():
    found = explained(methods=ALL)
    assert found.methods == ALL
    assert {name for name, scores in found.attributions.items() if scores.signed} == set(SIGNED)
    for name in ALL:
        assert np.isfinite(found[name]).all()
        assert name in SIGNED or (found[name] >= 0).all()
    assert all((found[name] < 0).any() for name in SIGNED)


@pytest.mark.parametrize("name", ALL)
def test_a_dropped_sink_works_with_all(name):
    found = explained(methods=(name,), drop_sink=True)
    assert np.isfinite(found[name]).all()
    assert not np.allclose(found[name], explained(methods=ALL)[name])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("normalize", ["receptive_field", "prefix", "column"])
def test_the_receptive_field_is_for_edges_that_mix_the_residual_by_a_share(name, normalize):
    if name in SIGNED or (name in OWN_RESIDUAL and normalize != "column"):
        with pytest.raises(ChoiceError, match=rf"normalize='{normalize}' asked, but {name} .*or use rollout"):
            explained(methods=(name,), normalize=normalize)
    else:
        assert np.isfinite(explained(methods=(name,), normalize=normalize)[name]).all()


def test_the_default_normalises_only_where_that_means_something():
    found = explained(methods=ALL).provenance["settings"]["normalize"]
    assert {name for name, one in found.items() if one is None} == set(OWN_RESIDUAL)
    np.testing.assert_array_equal(
        explained(methods=("alti",), normalize=None)["alti"], explained(methods=("alti",))["alti"]
    )


@pytest.mark.parametrize("name", ALL)
def test_single_heads_or_a_line_that_there_are_none(name):
    if name in TOGETHER:
        with pytest.raises(ChoiceError, match="for all heads together"):
            explained(methods=(name,), head=1)
    else:
        assert explained(methods=(name,), head=1)[name].shape == explained(methods=ALL)[name].shape


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("flow", "gradient_flow")])
def test_a_long_input_is_read_by_rows(name, monkeypatch):
    from attnx.pipeline import options as plan

    held = explained(methods=ALL)[name]
    monkeypatch.setattr(plan, "LONG_INPUT", 3)
    found = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), TEXT, methods=name, target=(5, 7))
    np.testing.assert_allclose(found[name], held, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_an_image(name):
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=3, **zoo.WIDTH)
    torch.manual_seed(0)
    model = hf.ViTForImageClassification(config).eval()
    from PIL import Image

    from attnx.demo_models.planted_patch import build_processor

    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))
    processor = copy.copy(build_processor())
    processor.size = {"height": 32, "width": 32}
    found = attnx.explain(model, processor, picture, methods=name, target=("LABEL_1", "LABEL_0"))
    assert found[name].shape == (3, 17)
    assert np.isfinite(found[name]).all()


def token_classifier():
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=len(zoo.wordpiece_tokenizer()), num_labels=3, **zoo.WIDTH)
    return hf.BertForTokenClassification(config).eval()


@pytest.mark.parametrize("made", [zoo.classifier, zoo.masked_lm, token_classifier])
def test_a_contrast_of_two_answers_turns_signs_round(made):
    name = "raw:gradient_signed"
    one, other = (
        attnx.explain(
            made(), zoo.wordpiece_tokenizer(), TEXT, methods=["gradient_rollout", name], target=target, position=0
        )
        for target in ((0, 1), (1, 0))
    )
    np.testing.assert_allclose(one[name], -other[name], atol=1e-6)
    assert not np.allclose(one["gradient_rollout"], other["gradient_rollout"])


def test_signed_edges_are_for_methods_that_take_them():
    with pytest.raises(ChoiceError, match="flow needs edges that are at least 0, and those of 'gradient_signed'"):
        explained(methods=("flow:gradient_signed",))
    with pytest.raises(ChoiceError, match="'gradient_signed' are signed; head='max' would mix signs"):
        explained(methods=("rollout:gradient_signed",), head="max")


def test_raw_gains_of_both_signs_are_those_that_rollout_clips():
    found = attnx.explain(
        zoo.causal_lm(),
        zoo.bytelevel_tokenizer(),
        TEXT,
        methods=["raw:gradient_signed", "raw:gradient"],
        head="all",
        target=(5, 7),
    )
    np.testing.assert_allclose(found["raw:gradient_signed"].clip(0), found["raw:gradient"], atol=1e-9)


def test_a_target_that_nothing_depends_on_is_a_note():
    found = explained(methods=("rollout", "alti"))
    assert any("rollout, alti gives the same scores for every target; gradient_rollout" in note for note in found.notes)
    assert not any("know the answer" in note for note in explained(methods=ALL).notes)


def test_a_share_of_the_score_has_no_map_and_says_so():
    found = explained(methods=("alti", "alti_logit"), all_queries=True)
    assert {name for name, scores in found.attributions.items() if scores.matrices is not None} == {"alti"}
    with pytest.raises(InputError, match="alti_logit explains the target alone"):
        found.matrix("alti_logit")


def test_the_account_is_told_with_the_words():
    assert "alti_logit: " in explained(methods=("alti_logit",)).to_markdown()


def test_a_quantised_model_has_no_gradient_and_says_what_to_use():
    quantised = torch.ao.quantization.quantize_dynamic(copy.deepcopy(zoo.classifier()), {torch.nn.Linear})
    with pytest.raises(CaptureError, match=r"quantised.*use rollout, or methods=\['blankout'\]"):
        attnx.explain(quantised, zoo.wordpiece_tokenizer(), TEXT, methods="gradient_rollout")


@pytest.mark.parametrize("name", ["gradient_rollout", "alti_logit"])
def test_a_model_made_in_inference_mode_says_what_to_use(name):
    with torch.inference_mode():
        model = hf.GPT2LMHeadModel(zoo.causal_lm().config).eval()
    with pytest.raises(CaptureError, match=r"inference mode.*use methods=\['blankout'\]"):
        attnx.explain(model, zoo.bytelevel_tokenizer(), TEXT, methods=name)


@pytest.mark.parametrize("name", ["gradient_rollout", "alti", "alti_logit", "value_zeroing"])
def test_inside_inference_mode_all_is_as_ever(name):
    with torch.inference_mode():
        found = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), TEXT, methods=name, target=(5, 7))
    np.testing.assert_allclose(found[name], explained(methods=ALL)[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["alti", "norm_rollout", "value_zeroing", "alti_logit", "gradient_rollout"])
def test_flash_kernels_have_a_line_that_says_how_to_load(name):
    """As transformers calls them: through its interface, where no projection is seen."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register("flash_attention_2", sdpa_attention_forward)
    AttentionMaskInterface.register("flash_attention_2", sdpa_mask)
    model = copy.deepcopy(zoo.causal_lm())
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(AttnxError, match="attn_implementation='sdpa'"):
        attnx.explain(model, zoo.bytelevel_tokenizer(), TEXT, methods=name)


def test_a_gate_on_the_heads_is_refused_by_name():
    from attnx.hooks.capture import capture
    from tests.hooks.test_blocks import Gated

    for extra in ("blocks", "rest"):
        with pytest.raises(CaptureError, match=r"layers\.0 multiplies.*gate.*use methods of attention itself"):
            capture(Gated().eval(), extras=(extra,), states=torch.randn(1, 5, 8))


@pytest.mark.parametrize("name", ["alti", "norm_rollout", "value_zeroing", "alti_logit"])
def test_under_autocast_blocks_are_explained_to_its_precision(name):
    with torch.autocast("cpu", torch.bfloat16):
        halved = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), TEXT, methods=name, target=(5, 7))
    np.testing.assert_allclose(halved[name], explained(methods=ALL)[name], atol=5e-2)
