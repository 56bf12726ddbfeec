"""Models that answer from the mean of all positions, and texts without the mask that would be filled in."""

import copy
import json

import numpy as np
import pytest
import transformers as hf

import attnx
from attnx.errors import ChoiceError
from tests import zoo

TEXT = "the key to the cabinets"


@pytest.fixture
def embedder(tmp_path):
    """A model without a head as sentence-transformers saves one, with the file that says how it is pooled."""

    def saved(**pooling):
        headless().save_pretrained(tmp_path)
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
        return hf.AutoModel.from_pretrained(tmp_path).eval()

    return saved


def headless():
    return hf.BertModel(hf.BertConfig(vocab_size=len(zoo.wordpiece_tokenizer()), **zoo.WIDTH)).eval()


def explain(model, **options):
    return attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT, methods="rollout", **options)


@pytest.mark.parametrize("pooling", [{"pooling_mode_mean_tokens": True}, {"pooling_mode": "mean"}])
def test_an_embedder_pooled_by_the_mean_and_explained_from_one_position_says_so(embedder, pooling):
    explanation = explain(embedder(**pooling))
    assert "answers from the mean of all positions" in explanation.verdict
    assert 'position="mean"' in explanation.verdict


def test_one_that_is_pooled_otherwise_does_not(embedder):
    by_cls = embedder(pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    assert "mean of all" not in explain(by_cls).verdict
    assert "mean of all" not in explain(headless()).verdict


def test_a_head_that_pools_by_the_mean_says_so_in_its_config():
    model = copy.deepcopy(zoo.classifier())
    assert "pooling" not in attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT).provenance.get("input", {})
    model.config.classifier_pooling = "mean"
    assert attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT).provenance["input"] == {"pooling": "mean"}


def test_the_mean_of_all_positions_can_be_explained(embedder):
    model = embedder(pooling_mode="mean")
    rows = explain(model, all_queries=True).attributions["rollout"].matrices
    mean = explain(model, position="mean")
    np.testing.assert_allclose(mean["rollout"], rows.mean(1), atol=1e-6)
    assert mean.explained == "the mean of all positions"
    assert "answers from the mean" not in mean.verdict
    assert "as seen from the mean of all positions" in str(mean)


def test_it_needs_no_position_that_answers_by_itself():
    with pytest.raises(ChoiceError, match="no CLS token"):
        attnx.explain(zoo.model("siglip_vision_model"), None, zoo.inputs("siglip_vision_model"), methods="rollout")
    whole = attnx.explain(
        zoo.model("siglip_vision_model"), None, zoo.inputs("siglip_vision_model"), methods="rollout", position="mean"
    )
    assert whole["rollout"].shape[-1] == len(whole.positions)


def test_a_model_that_answers_at_each_position_has_no_mean():
    with pytest.raises(ChoiceError, match="predicts at each: give a number"):
        attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), TEXT, position="mean")
    with pytest.raises(ChoiceError, match="'mean' for the mean of all, 'entities' for each"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, position="first")


def test_a_masked_language_model_without_a_mask_says_so():
    model, tokenizer = zoo.masked_lm(), zoo.wordpiece_tokenizer()
    assert "no mask to fill in" in attnx.explain(model, tokenizer, TEXT).verdict
    assert "no mask" not in attnx.explain(model, tokenizer, "the key to the [MASK]").verdict
    assert "no mask" not in attnx.explain(zoo.classifier(), tokenizer, TEXT).verdict
