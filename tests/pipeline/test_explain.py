"""`explain`: one line from a model in memory to relevance of the words."""

import copy

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.errors import ArgumentError, CaptureError, ChoiceError, InputError
from tests import zoo
from tests.children import python

TEXT = "The key to the cabinets, unaffordable!"


@pytest.fixture
def explanation():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT)


def test_relevance_is_that_of_the_method_on_the_captured_attention(explanation):
    attention = attnx.capture(zoo.classifier(), **zoo.wordpiece_tokenizer()(TEXT, return_tensors="pt"))
    assert explanation.methods == ("lrp", "rollout", "raw", "flow")
    for method in ("raw", "rollout", "flow"):
        expected = getattr(attnx, method)(attention, position=0)
        np.testing.assert_allclose(explanation[method], expected, atol=1e-6)


def test_flow_comes_with_its_saturation(explanation):
    attention = attnx.capture(zoo.classifier(), **zoo.wordpiece_tokenizer()(TEXT, return_tensors="pt"))
    most = np.minimum(1, attnx.rollout(attention, layer=1).sum(0).numpy())
    reached = np.abs(explanation["flow"] - most) < 2e-6
    np.testing.assert_allclose(explanation.attributions["flow"].diagnostics["saturation"], reached.mean(1))


def test_words_are_those_of_the_text(explanation):
    assert [word.text for word in explanation.words] == [
        "The",
        "key",
        "to",
        "the",
        "cabinets",
        ",",
        "unaffordable",
        "!",
    ]
    assert explanation.tokens[0] == "[CLS]"
    assert explanation.tokens[7:11] == ("un", "##aff", "##ord", "##able")


def test_prediction_is_the_pipelines(explanation):
    pipeline = hf.pipeline("text-classification", model=zoo.classifier(), tokenizer=zoo.wordpiece_tokenizer())
    (expected,) = pipeline(TEXT)
    assert explanation.prediction.label == expected["label"]
    assert explanation.prediction.probability == pytest.approx(expected["score"], abs=1e-6)
    assert len(explanation.prediction.logits) == 2


def test_a_list_gives_what_each_text_gives_alone():
    texts = [TEXT, "hello", "the movie is a plain, dull and bad film about a book", ("hello world", "she said")]
    together = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), texts, batch_size=3)
    for text, one in zip(texts, together, strict=True):
        alone = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), text)
        assert one.tokens == alone.tokens
        for method in alone.methods:
            np.testing.assert_allclose(one[method], alone[method], atol=1e-5)
        np.testing.assert_allclose(one.prediction.logits, alone.prediction.logits, atol=1e-5)


def test_a_pair_has_two_segments():
    pair = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), ("hello world", "she said"))
    assert [(word.text, word.segment) for word in pair.words] == [("hello", 0), ("world", 0), ("she", 1), ("said", 1)]
    assert pair.text == ("hello world", "she said")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenised_batch_is_explained_without_its_padding(side):
    tokenizer = zoo.wordpiece_tokenizer()
    encoding = tokenizer(["hello world", TEXT], padding=True, padding_side=side, return_tensors="pt")
    together = attnx.explain(zoo.classifier(), tokenizer, encoding)
    for text, one in zip(["hello world", TEXT], together, strict=True):
        alone = attnx.explain(zoo.classifier(), tokenizer, text)
        assert one.tokens == alone.tokens
        np.testing.assert_allclose(one["rollout"], alone["rollout"], atol=1e-5)
    single = attnx.explain(zoo.classifier(), tokenizer, tokenizer("hello world"))
    assert isinstance(single, attnx.Explanation)


def test_layer_head_and_position_choose():
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    attention = attnx.capture(model, **tokenizer(TEXT, return_tensors="pt"))
    one = attnx.explain(model, tokenizer, TEXT, layer=2, head=3, position=4)
    assert (one.layers, one.position) == ((2,), 4)
    np.testing.assert_allclose(one["rollout"], attnx.rollout(attention, layer=2, head=3, position=4)[None], atol=1e-6)
    each = attnx.explain(model, tokenizer, TEXT, head="all")
    assert each["raw"].shape == (3, 4, len(each.positions))
    np.testing.assert_allclose(
        each.scores("raw", 2, head=1), attnx.raw(attention, layer=2, position=0, head=1), atol=1e-6
    )
    merged = attnx.explain(model, tokenizer, TEXT, head="max")
    np.testing.assert_allclose(merged["rollout"], attnx.rollout(attention, head="max", position=0), atol=1e-6)


def test_the_mask_is_explained_in_a_masked_language_model():
    one = attnx.explain(zoo.masked_lm(), zoo.wordpiece_tokenizer(), "Sara talked about [MASK] book")
    assert one.tokens[one.position] == "[MASK]"
    assert one.prediction.kind == "token"
    logits = zoo.masked_lm()(**zoo.wordpiece_tokenizer()("Sara talked about [MASK] book", return_tensors="pt")).logits
    assert one.prediction.index == int(logits[0, one.position].argmax())
    her = attnx.explain(zoo.masked_lm(), zoo.wordpiece_tokenizer(), "Sara talked about [MASK] book", target="her")
    expected = logits[0, one.position].softmax(-1)[zoo.wordpiece_tokenizer().convert_tokens_to_ids("her")]
    assert her.prediction.probability == pytest.approx(expected.item(), abs=1e-6)


def test_the_last_token_is_explained_in_a_decoder():
    one = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to the cabinets")
    assert one.position == len(one.positions) - 1
    assert [word.text for word in one.words] == ["the", "key", "to", "the", "cabinets"]
    logits = zoo.causal_lm()(**zoo.bytelevel_tokenizer()("the key to the cabinets", return_tensors="pt")).logits
    assert one.prediction.index == int(logits[0, -1].argmax())


def test_texts_without_a_padding_token_are_explained_one_by_one():
    one, two = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), ["the key", "hello world, she said"])
    np.testing.assert_allclose(
        two["rollout"], attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "hello world, she said")["rollout"]
    )
    assert one.text == "the key"


def test_a_vision_model_is_explained_by_patches():
    config = hf.ViTConfig(image_size=32, patch_size=8, id2label={0: "cat", 1: "dog"}, **zoo.WIDTH)
    torch.manual_seed(0)
    model = hf.ViTForImageClassification(config).eval()
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    one = attnx.explain(model, processor, image)
    assert one.tokens[:3] == ("[CLS]", "r0c0", "r0c1")
    assert len(one.positions) == 17
    assert one.prediction.label in ("cat", "dog")
    ready = attnx.explain(model, processor, processor(images=image, return_tensors="pt"))
    np.testing.assert_allclose(ready["rollout"], one["rollout"], atol=1e-6)
    with pytest.raises(InputError, match="not text"):
        attnx.explain(model, processor, "a cat")


def test_a_regression_has_a_value_and_several_labels_their_own_probability():
    tokenizer = zoo.wordpiece_tokenizer()
    for problem, kind in {"regression": "value", "multi_label_classification": "label"}.items():
        model = copy.deepcopy(zoo.classifier())
        model.config.problem_type = problem
        prediction = attnx.explain(model, tokenizer, TEXT).prediction
        assert prediction.kind == kind
        if kind == "label":
            assert prediction.noun == "one of 2 labels that may all hold"
            assert prediction.probability == pytest.approx(1 / (1 + np.exp(-max(prediction.logits))), abs=1e-6)
        else:
            assert (prediction.probability, prediction.noun) == (None, "value")


def test_a_model_without_a_head_has_no_prediction():
    model = hf.BertModel(hf.BertConfig(vocab_size=len(zoo.wordpiece_tokenizer()), **zoo.WIDTH)).eval()
    assert attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT).prediction is None
    with pytest.raises(ChoiceError, match="no head"):
        attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT, target="POSITIVE")


def test_inputs_that_the_model_refuses_are_left_out():
    config = hf.DistilBertConfig(
        vocab_size=len(zoo.wordpiece_tokenizer()), dim=32, n_layers=2, n_heads=4, hidden_dim=48
    )
    model = hf.DistilBertForSequenceClassification(config).eval()
    assert "token_type_ids" in zoo.wordpiece_tokenizer()(TEXT)
    assert attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT)["rollout"].shape == (2, 13)


def test_the_tokenizer_is_left_as_it_was_and_its_saved_truncation_cuts_nothing():
    tokenizer = copy.deepcopy(zoo.wordpiece_tokenizer())
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=6)
    before = tokenizer.backend_tokenizer.to_str()
    assert len(attnx.explain(zoo.classifier(), tokenizer, TEXT).positions) == 13
    assert tokenizer.backend_tokenizer.to_str() == before


def test_a_text_that_is_too_long_is_cut_only_on_request():
    text = "hello world " * 60
    with pytest.raises(InputError, match=r"122 tokens, the model takes 64; .*truncate=True"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), text)
    cut = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), text, truncate=True)
    assert len(cut.positions) == 64
    assert cut.notes == ("the text was cut to 64 of 122 tokens",)


def test_robertas_positions_begin_behind_its_padding_index():
    config = hf.RobertaConfig(
        vocab_size=len(zoo.wordpiece_tokenizer()), max_position_embeddings=12, pad_token_id=1, **zoo.WIDTH
    )
    model = hf.RobertaModel(config).eval()
    assert len(attnx.explain(model, zoo.wordpiece_tokenizer(), "key " * 8).positions) == 10
    with pytest.raises(InputError, match="11 tokens, the model takes 10"):
        attnx.explain(model, zoo.wordpiece_tokenizer(), "key " * 9)


def test_unknown_words_are_told():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the Zyzzyva key")
    assert one.notes == ("not in the vocabulary, read as [UNK]: Zyzzyva",)
    assert [word.text for word in one.words] == ["the", "Zyzzyva", "key"]


BAD = [
    ({"text": {"input_ids": [[2, 5, 3]], "attention_mask": torch.ones(1, 3, 3)}}, InputError, "batch × length"),
    ({"text": {"input_ids": [[2, 5, 6, 3]], "attention_mask": [[1, 1, 0, 1]]}}, InputError, "hides tokens inside"),
    ({"text": {"input_ids": [[2.0, 5.0]]}}, InputError, "whole numbers"),
    ({"text": {"input_ids": [[2, -5, 3]]}}, InputError, "token id -5"),
    ({"text": "half \ud800"}, InputError, "surrogate"),
    ({"text": ["the key", ""]}, InputError, "text 2 of 2: the text is empty"),
    ({"layer": 2.5}, ChoiceError, "layer must be a whole number, found 2.5"),
    ({"layer": True}, ChoiceError, "layer must be a whole number"),
    ({"head": 1.0}, ChoiceError, "head must be a whole number"),
    ({"position": "2"}, ChoiceError, "position must be a whole number"),
    ({"residual": "x"}, ChoiceError, "residual must be between"),
    ({"target": "7"}, ChoiceError, "NEGATIVE, POSITIVE"),
    ({"tokenizer": hf.ViTImageProcessor()}, InputError, "needs a tokenizer"),
    ({"text": ""}, InputError, "empty"),
    ({"text": " \n"}, InputError, "empty"),
    ({"text": []}, InputError, "list of texts is empty"),
    ({"text": None}, ArgumentError, "missing a required argument: 'text'"),
    ({"text": ("a", "b", "c")}, InputError, "pair"),
    ({"text": {"ids": [1]}}, InputError, "needs 'input_ids', found ids"),
    ({"text": {"input_ids": [[2, 999, 3]]}}, InputError, "token id 999"),
    ({"text": {"input_ids": [[2, 3], [2]]}}, InputError, "padding=True"),
    ({"layer": 4}, ChoiceError, "layer 4 was requested, but the model has 3"),
    ({"head": 4}, ChoiceError, "head 4 was requested, but the model has 4"),
    ({"position": 13}, ChoiceError, "position 13 was requested, but the input has 13"),
    ({"target": "HAPPY"}, ChoiceError, "NEGATIVE, POSITIVE"),
    ({"methods": ["rollup"]}, ChoiceError, "did you mean 'rollout'"),
    ({"methods": []}, InputError, "no method"),
    ({"batch_size": 0}, InputError, "at least 1"),
    ({"tokenizer": None}, ArgumentError, "comes without its tokenizer; load it"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_input_is_one_line_that_says_what_to_do(change, error, message):
    arguments = {"model": zoo.classifier(), "tokenizer": zoo.wordpiece_tokenizer(), "text": TEXT} | change
    with pytest.raises(error, match=message) as caught:
        attnx.explain(**arguments)
    assert "\n" not in str(caught.value)


def test_a_foreign_tokenizer_is_refused():
    with pytest.raises(InputError, match="do not belong together"):
        attnx.explain(zoo.classifier(), zoo.bytelevel_tokenizer(), TEXT)


def test_two_masks_ask_for_a_position():
    with pytest.raises(ChoiceError, match="2 masks, at positions 1, 3"):
        attnx.explain(zoo.masked_lm(), zoo.wordpiece_tokenizer(), "[MASK] key [MASK]")


def test_models_that_cannot_be_explained_say_why():
    tokenizer = zoo.wordpiece_tokenizer()
    size = len(tokenizer)
    mamba = hf.MambaModel(hf.MambaConfig(vocab_size=size, hidden_size=16, num_hidden_layers=1)).eval()
    with pytest.raises(CaptureError, match="no attention was seen in MambaModel"):
        attnx.explain(mamba, tokenizer, TEXT)
    t5 = hf.T5Model(hf.T5Config(vocab_size=size, d_model=16, num_layers=1, num_heads=2, d_kv=8, d_ff=16)).eval()
    with pytest.raises(CaptureError, match=r"get_encoder\(\)"):
        attnx.explain(t5, tokenizer, TEXT)
    assert attnx.explain(t5.get_encoder(), tokenizer, TEXT).layers == (1,)
    with pytest.raises(CaptureError, match="has no config"):
        attnx.explain(torch.nn.Linear(2, 2), tokenizer, TEXT)
    tagger = hf.BertForTokenClassification(hf.BertConfig(vocab_size=size, **zoo.WIDTH)).eval()
    with pytest.raises(ChoiceError, match="position="):
        attnx.explain(tagger, tokenizer, TEXT)
    assert attnx.explain(tagger, tokenizer, TEXT, position=2).prediction.kind == "tag"


def test_importing_attnx_loads_nothing_heavy(children):
    heavy = "{'transformers', 'captum', 'matplotlib', 'networkx', 'scipy', 'numba', 'rich', 'typer', 'pandas'}"
    code = f"import sys, attnx; print(sorted({heavy} & set(sys.modules)))"
    assert children.run(python(code)).stdout == "[]\n"


def test_the_public_names_fit_on_one_screen():
    assert all(hasattr(attnx, name) for name in attnx.__all__)
    assert len(attnx.__all__) <= 36


def tiny(kind, config, **options):
    torch.manual_seed(0)
    return kind(config(vocab_size=len(zoo.wordpiece_tokenizer()), **options)).eval()


def test_a_model_that_reads_padding_is_run_one_by_one():
    """XLNet answers from its last position, which is padding in a batch; ConvBERT convolves over it."""
    tokenizer = zoo.wordpiece_tokenizer()
    xlnet = tiny(hf.XLNetForSequenceClassification, hf.XLNetConfig, d_model=32, n_layer=2, n_head=4, d_inner=48)
    convbert = tiny(hf.ConvBertForSequenceClassification, hf.ConvBertConfig, embedding_size=32, **zoo.WIDTH)
    for model in (xlnet, convbert):
        for text, one in zip(("hello", TEXT), attnx.explain(model, tokenizer, ["hello", TEXT]), strict=True):
            alone = attnx.explain(model, tokenizer, text)
            np.testing.assert_allclose(one.prediction.logits, alone.prediction.logits, atol=1e-5)
            np.testing.assert_allclose(one["rollout"], alone["rollout"], atol=1e-5)


def test_a_classifier_that_refuses_batches_is_run_one_by_one():
    model = tiny(hf.LlamaForSequenceClassification, hf.LlamaConfig, **zoo.WIDTH)
    model.config.pad_token_id = None
    one, two = attnx.explain(model, zoo.wordpiece_tokenizer(), ["hello", TEXT])
    assert (len(one.positions), len(two.positions)) == (3, 13)


def test_a_wrapper_hands_on_all_inputs_of_the_model_inside():
    class Wrapper(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.config = inner, inner.config

        def get_base_model(self):
            return self.inner

        def get_input_embeddings(self):
            return self.inner.get_input_embeddings()

        def forward(self, input_ids=None, attention_mask=None, **options):
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, **options)

    pair = ("hello world", "she said")
    wrapped = attnx.explain(Wrapper(zoo.classifier()), zoo.wordpiece_tokenizer(), pair)
    plain = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), pair)
    np.testing.assert_allclose(wrapped.prediction.logits, plain.prediction.logits)


def test_a_head_that_does_not_classify_texts_predicts_nothing():
    electra = tiny(hf.ElectraForPreTraining, hf.ElectraConfig, embedding_size=32, **zoo.WIDTH)
    assert attnx.explain(electra, zoo.wordpiece_tokenizer(), TEXT).prediction is None


def test_a_model_that_returns_tuples_predicts_the_same():
    model = copy.deepcopy(zoo.classifier())
    model.config.return_dict = False
    plain = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT)
    assert attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT).prediction == plain.prediction


def test_a_prediction_that_is_not_a_number_is_an_error():
    model = copy.deepcopy(zoo.classifier())
    with torch.no_grad():
        model.classifier.weight.fill_(float("nan"))
    with pytest.raises(CaptureError, match="predicts NaN"):
        attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT)


def test_layers_without_attention_are_told():
    model = tiny(
        hf.JambaModel, hf.JambaConfig, use_mamba_kernels=False, attn_layer_period=2, attn_layer_offset=1,
        expert_layer_period=2, expert_layer_offset=1, num_experts=2, mamba_d_state=4, mamba_dt_rank=4, pad_token_id=0,
        num_key_value_heads=2, **(zoo.WIDTH | {"num_hidden_layers": 4}),
    )  # fmt: skip
    explanation = attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT)
    assert explanation.notes[-2].startswith("attention was seen 2 times in 4 layers")


def test_a_causal_encoder_is_explained_from_its_last_position():
    model = tiny(hf.CLIPTextModel, hf.CLIPTextConfig, eos_token_id=3, bos_token_id=2, pad_token_id=0, **zoo.WIDTH)
    explanation = attnx.explain(model, zoo.wordpiece_tokenizer(), TEXT)
    assert explanation.position == len(explanation.positions) - 1


def test_whole_numbers_may_be_numpys(tmp_path):
    one = attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT,
        layer=np.int64(2), position=np.int64(3), head=np.int64(1), target=np.int64(1),
    )  # fmt: skip
    one.save(tmp_path / "x.safetensors")
    assert (one.layers, one.position, one.prediction.label) == ((2,), 3, "POSITIVE")


def test_a_list_may_hold_tokenised_inputs():
    tokenizer = zoo.wordpiece_tokenizer()
    one, two = attnx.explain(zoo.classifier(), tokenizer, [tokenizer("hello"), TEXT])
    assert (one.tokens, two.text) == (("[CLS]", "hello", "[SEP]"), TEXT)


def test_the_settings_are_on_record():
    settings = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT).provenance["settings"]
    residuals = {"raw": 0.0, "rollout": 0.5, "flow": 0.5}
    assert settings == {"head": "mean", "residual": residuals, "normalize": None, "drop_sink": False}


def test_where_no_method_was_named_the_first_reference_leads():
    both = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to it", references=("lrp", "blankout"))
    assert both.methods == ("lrp", "blankout", "rollout", "raw", "flow")
    named = {"methods": "rollout", "references": "lrp"}
    assert attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to it", **named).methods[0] == "rollout"
