"""Some types of every kind, each with what has to become of it; `python -m tests.families` asks all types."""

import pytest

from tests.families.__main__ import table
from tests.families.judge import Row, judge
from tests.families.models import small_config

QUICK = {
    "electra": "equal",  # an encoder
    "xlnet": "equal",  # einsum, two streams
    "gpt_bigcode": "equal",  # one key for all heads
    "gemma3_text": "equal",  # windows and the whole in turn
    "deepseek_v3": "equal",  # compressed keys, experts
    "qwen3_next": "equal",  # linear attention below attention, a gate
    "convbert": "equal",  # heads that convolve
    "clip": "equal",  # two towers, one advised
    "clip_vision_model": "equal",
    "squeezebert": "eager is wrong",
    "diffllama": "refused",  # one attention used twice
    "fnet": "refused",  # no attention
}
SLOW = {
    **dict.fromkeys(("albert", "bart", "camembert", "deberta", "deberta-v2", "ernie", "esm", "flaubert"), "equal"),
    **dict.fromkeys(("fsmt", "layoutlm", "marian", "mpnet", "mt5", "nystromformer", "rembert", "roformer"), "equal"),
    **dict.fromkeys(("bloom", "codegen", "cohere", "ctrl", "falcon_h1", "gemma2", "glm4", "gpt_neox"), "equal"),
    **dict.fromkeys(("gpt_oss", "gptj", "jamba", "llama", "mixtral", "mpt", "olmo2", "opt", "phi3", "qwen3"), "equal"),
    **dict.fromkeys(("beit", "deit", "dinov2", "ijepa", "siglip_vision_model", "vit", "vivit", "yolos"), "equal"),
    **dict.fromkeys(("hubert", "sew", "wav2vec2", "whisper", "audio-spectrogram-transformer"), "equal"),
    **dict.fromkeys(("flava_text_model", "llava", "qwen2_vl", "siglip", "hrm_text", "funnel"), "equal"),
    **dict.fromkeys(("big_bird", "qwen2_vl_vision"), "equal by softmax"),
    **dict.fromkeys(("prophetnet", "minimax", "cpmant", "wavlm"), "eager is wrong"),
    **dict.fromkeys(("longformer", "mamba", "mobilevit", "rwkv", "segformer", "timesformer", "vit_mae"), "refused"),
}


def check(name, verdict):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if name not in CONFIG_MAPPING_NAMES:
        pytest.skip(f"this transformers has no {name}")
    row = judge(name)
    if row.verdict == "not built":
        pytest.skip(row.reason)
    assert row.verdict == verdict, row.reason


@pytest.mark.parametrize("name", QUICK)
def test_a_type_is_equal_to_eager_or_refused(name):
    check(name, QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_many_types_are_equal_to_eager_or_refused(name):
    check(name, SLOW[name])


def test_a_small_config_is_small_in_all_its_parts():
    import transformers as hf

    config = small_config(hf.LlavaConfig)
    for part in (config.text_config, config.vision_config):
        assert (part.num_hidden_layers, part.hidden_size, part.num_attention_heads) == (2, 32, 4)


def test_the_table_counts_verdicts():
    rows = [Row("a", "equal"), Row("b", "refused", "x | y"), Row("c", "equal")]
    printed = table(rows)
    assert printed.startswith("3 model types: 2 equal, 1 refused.")
    assert "| `b` | refused | x / y |" in printed
