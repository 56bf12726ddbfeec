"""Which adapter serves which model, and how third parties add theirs."""

from inspect import Parameter, signature

import pytest
import torch
import transformers as hf

import attnx
from attnx.adapters import Adapter, adapter_for
from attnx.adapters.families import ADAPTERS, cls_position
from attnx.adapters.text import prepare_text
from attnx.errors import CaptureError, ChoiceError, RegistryError
from attnx.registry import Registry
from tests import zoo
from tests.children import python

CHOSEN = {
    "bert": "bert",
    "distilbert": "distilbert",
    "gpt2": "gpt2",
    "vit": "vit",
    "roberta": "encoder",
    "modernbert": "encoder",
    "albert": "encoder",
    "t5": "encoder",
    "llama": "decoder",
    "mistral": "decoder",
    "bloom": "decoder",
    "gpt_neo": "decoder",
    "gpt_neox": "decoder",
    "opt": "decoder",
    "qwen2": "decoder",
    "qwen3": "decoder",
    "gemma2": "decoder",
    "gemma3": "decoder",
    "phi3": "decoder",
    "deit": "vision",
    "beit": "vision",
    "dinov2": "vision",
    "dinov2_with_registers": "vision",
    "clip_vision_model": "vision",
    "siglip_vision_model": "vision",
}


def test_all_families_of_the_zoo_have_an_adapter():
    assert set(CHOSEN) == set(zoo.FAMILIES)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_model_finds_its_adapter(name):
    assert adapter_for(zoo.model(name)).name == CHOSEN[name]


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "encoder_decoder", "audio", "image_text"])
def test_a_row_says_all_that_its_preparation_can_be_told(name):
    adapter = ADAPTERS[name]
    named = {one.name for one in signature(adapter.prepare).parameters.values() if one.kind is Parameter.KEYWORD_ONLY}
    assert named == adapter.takes | {"truncate"}


def test_a_bert_that_decodes_is_seen_to_be_causal():
    model = hf.BertLMHeadModel(hf.BertConfig(vocab_size=120, is_decoder=True, **zoo.WIDTH)).eval()
    assert attnx.capture(model, **zoo.inputs("bert")).causal


@pytest.mark.parametrize("name", zoo.TEXT)
def test_the_embedding_module_embeds_tokens(name):
    model = zoo.model(name)
    assert isinstance(adapter_for(model).embedding_module(model), torch.nn.Embedding)


def test_the_encoder_of_an_encoder_decoder_is_an_encoder():
    config = hf.MarianConfig(
        vocab_size=120,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        pad_token_id=0,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        decoder_start_token_id=0,
    )
    assert adapter_for(hf.MarianModel(config).get_encoder()).name == "encoder"


def test_adapters_lists_them():
    assert {"bert", "distilbert", "gpt2", "vit", "encoder", "decoder", "vision"} <= set(attnx.list_adapters())


def test_a_duplicate_is_rejected():
    with pytest.raises(RegistryError, match="'bert' is registered already"):
        attnx.register_adapter(Adapter(name="bert", prepare=prepare_text, explained=cls_position))


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(ChoiceError, match="did you mean 'gpt2'"):
        ADAPTERS["gpt3"]


def test_a_thing_can_be_replaced_on_purpose():
    registry = Registry[int]("number")
    registry.add("one", 1)
    assert registry.remove("one") == 1
    registry.add("one", 11)
    assert registry["one"] == 11


def plugin(folder, value):
    """A third party's package as an installer leaves it: a module, and metadata that points into it."""
    (folder / "alien.py").write_text(
        "from attnx.adapters.adapter import Adapter\n"
        "from attnx.adapters.families import cls_position\n"
        "from attnx.adapters.text import prepare_text\n"
        "adapter = Adapter(name='alien', prepare=prepare_text, explained=cls_position)\n"
    )
    info = folder / "alien-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: alien\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[attnx.adapters]\n{value}\n")


@pytest.fixture
def list_adapters(children, tmp_path):
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import attnx; print(*attnx.list_adapters())"
    return lambda: children.run(python(code))


@pytest.mark.slow
def test_a_third_party_adds_an_adapter_through_an_entry_point(list_adapters, tmp_path):
    plugin(tmp_path, "alien = alien:adapter")
    assert "alien" in list_adapters().stdout.split()


@pytest.mark.slow
def test_a_third_party_cannot_override_a_built_in(list_adapters, tmp_path):
    plugin(tmp_path, "bert = alien:adapter")
    assert "'bert' is registered already" in list_adapters().stderr


@pytest.mark.slow
def test_a_plug_in_that_fails_is_named(list_adapters, tmp_path):
    plugin(tmp_path, "alien = alien:missing")
    assert "plug-in 'alien:missing' for adapter 'alien' failed to load" in list_adapters().stderr


def test_what_the_encoder_of_a_classifier_loses_is_said():
    config = hf.BartConfig(vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16)  # fmt: skip
    with pytest.raises(
        CaptureError, match=r"get_encoder\(\).*not the prediction of BartForSequenceClassification"
    ) as found:
        adapter_for(hf.BartForSequenceClassification(config))
    assert "prediction, target and references are lost" in str(found.value)
    with pytest.raises(CaptureError) as found:
        adapter_for(hf.BartModel(config))
    assert "lost" not in str(found.value)
