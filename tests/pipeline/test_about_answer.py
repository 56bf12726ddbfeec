"""`explain` with methods whose edges know the values or the answer."""

from functools import partial

import numpy as np
import pytest

import attnx
from attnx.errors import ChoiceError
from attnx.hooks import ModuleObserver
from attnx.methods import METHODS
from tests import zoo

BEYOND = [name for name in METHODS.names() if name not in ("raw", "rollout", "flow", "alti_logit")]
"""`alti_logit` is for pre-LN models, and has a file of its own."""


def explained(made, tokenizer, **options):
    return attnx.explain(made(), tokenizer(), "the key to the", **options)


@pytest.mark.parametrize("made", [zoo.classifier, zoo.masked_lm])
def test_every_method_explains_an_encoder(made):
    found = explained(made, zoo.wordpiece_tokenizer, methods=["rollout", *BEYOND], all_queries=True)
    assert found.methods == ("rollout", *BEYOND)
    for name in BEYOND:
        assert np.isfinite(found[name]).all()
        assert (found[name] >= 0).all()
        np.testing.assert_allclose(found.attributions[name].matrices[:, found.position], found[name], rtol=1e-5)


def test_every_method_explains_a_decoder():
    found = explained(zoo.causal_lm, zoo.bytelevel_tokenizer, methods=BEYOND, drop_sink=True)
    assert all(np.isfinite(found[name]).all() for name in BEYOND)


@pytest.mark.parametrize(
    ("made", "tokenizer"),
    [(zoo.classifier, zoo.wordpiece_tokenizer), (zoo.causal_lm, zoo.bytelevel_tokenizer)],
    ids=["encoder", "decoder"],
)
def test_attention_answer_and_gradient_are_of_one_run(made, tokenizer):
    model, runs = made(), []
    ask = partial(attnx.explain, model, tokenizer(), methods=["rollout", "gradient_rollout", "gradient_flow"])
    ask("the key to the")  # the first call of a model is held against a plain run
    with ModuleObserver([model], lambda *_: runs.append(1)):
        ask("the key to the")
        assert len(runs) == 1
        ask(["the key to the", "the key", "the"])
    assert len(runs) == 1 + 3


def test_the_target_changes_methods_about_the_answer_and_no_others():
    one, other = (
        explained(zoo.classifier, zoo.wordpiece_tokenizer, methods=["alti", "gradient_rollout"], target=target)
        for target in ("NEGATIVE", "POSITIVE")
    )
    np.testing.assert_array_equal(one["alti"], other["alti"])
    assert not np.allclose(one["gradient_rollout"], other["gradient_rollout"])


def test_batches_give_the_numbers_of_single_inputs():
    texts = ["the key to the cabinets", "a table"]
    together = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), texts, methods=BEYOND)
    for text, found in zip(texts, together, strict=True):
        alone = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), text, methods=BEYOND)
        for name in BEYOND:
            np.testing.assert_allclose(found[name], alone[name], atol=1e-4, rtol=1e-4)


def test_without_a_head_they_are_left_out_with_a_note():
    model, tokenizer = zoo.classifier().bert, zoo.wordpiece_tokenizer()
    found = attnx.explain(model, tokenizer, "the key", methods=["rollout", "gradient_rollout"])
    assert found.methods == ("rollout",)
    assert any("gradient_rollout left out" in note for note in found.notes)
    with pytest.raises(ChoiceError, match="load the model with its head"):
        attnx.explain(model, tokenizer, "the key", methods="gradient_rollout")


def test_single_heads_where_the_definition_has_them():
    found = explained(zoo.classifier, zoo.wordpiece_tokenizer, methods=["rollout:norm", "gradient_rollout"], head="all")
    assert found["rollout:norm"].shape == found["gradient_rollout"].shape == (3, 4, len(found.positions))
    with pytest.raises(ChoiceError, match="'alti' exist for all heads together"):
        explained(zoo.classifier, zoo.wordpiece_tokenizer, methods="alti", head=1)


def test_a_share_of_the_residual_is_refused_where_the_model_has_its_own():
    with pytest.raises(ChoiceError, match=r"residual=0\.3 asked, but alti has the model's own; use rollout"):
        explained(zoo.classifier, zoo.wordpiece_tokenizer, methods="alti", residual=0.3)
    found = explained(zoo.classifier, zoo.wordpiece_tokenizer, methods=["rollout", "alti"], residual=0.3)
    assert found.provenance["settings"]["residual"] == {"rollout": 0.3, "alti": "inside"}
