"""Whisper writes down what it hears, and each word that it wrote is explained."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import InputError
from tests import whisper_tiny, zoo
from tests.sound_zoo import audio

START, END, LANGUAGES, TASKS, NO_TIMES = 1, 2, {"<|en|>": 3, "<|fr|>": 4}, {"transcribe": 5, "translate": 6}, 7


@pytest.fixture(scope="module")
def whisper():
    """Tiny and random, with the tokens that a model of several languages begins with."""
    sizes = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 48))}  # fmt: skip
    tokens = {"decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": 0, "bos_token_id": START}
    tokenizer = zoo.wordpiece_tokenizer()
    torch.manual_seed(0)
    model = hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            **sizes, **tokens, d_model=32, max_source_positions=100, max_target_positions=32, vocab_size=len(tokenizer),
            suppress_tokens=None, begin_suppress_tokens=None,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3)
    config = model.generation_config
    config.lang_to_id, config.task_to_id, config.is_multilingual = LANGUAGES, TASKS, True
    config.no_timestamps_token_id = NO_TIMES
    return model, SimpleNamespace(feature_extractor=hf.WhisperFeatureExtractor(chunk_length=2), tokenizer=tokenizer)


def begun(g):
    """The ids with which the model began, by their names."""
    return [one.token for one in g.positions[g.sequences["source"] : g.prompt_length]]


def named(processor, *ids):
    return processor.tokenizer.convert_ids_to_tokens(list(ids))


def test_what_is_written_is_what_the_model_writes_by_itself(whisper):
    model, processor = whisper
    g = attnx.explain_generation(
        *whisper, audio(), max_new_tokens=6, language="fr", task="translate", methods="rollout"
    )
    features = processor.feature_extractor(audio(), sampling_rate=16_000, return_tensors="pt")["input_features"]
    with torch.no_grad():
        ids = model.generate(
            features, language="fr", task="translate", max_new_tokens=6, force_unique_generate_call=True
        )
    assert [one.token for one in g.positions[g.sequences["source"] :]] == named(processor, *ids[0].tolist())
    assert begun(g) == named(processor, START, LANGUAGES["<|fr|>"], TASKS["translate"], NO_TIMES)
    assert len(g) == len(ids[0]) - 4


def test_the_language_is_heard_where_none_is_named(whisper):
    g = attnx.explain_generation(*whisper, audio(), max_new_tokens=2, methods="rollout")
    audio_input = begun(g)
    assert audio_input[0] == named(whisper[1], START)[0]
    assert audio_input[1] in named(whisper[1], *LANGUAGES.values())


def test_a_written_token_is_explained_as_explain_explains_it(whisper):
    """By teacher forcing: the same ids as a target give the same rows."""
    g = attnx.explain_generation(
        *whisper, audio(), max_new_tokens=4, language="en", methods="rollout", references="lrp"
    )
    source, ids = g.sequences["source"], whisper[1].tokenizer.convert_tokens_to_ids
    written = [ids(one.token) for one in g.positions[source:]]
    step = len(g) - 1
    e = attnx.explain(
        *whisper, audio(), target_text=written[:-1], target=written[-1], methods="rollout", references="lrp"
    )
    for name in ("rollout", "lrp"):
        np.testing.assert_allclose(g[name][step][: source + len(written) - 1], e.scores(name), atol=1e-5)
    assert [one.time for one in g.positions[:source]] == [one.time for one in e.positions[:source]]


def test_the_model_is_left_as_it_was(whisper):
    model, _ = whisper
    before, weights = copy.deepcopy(model.generation_config), copy.deepcopy(model.state_dict())
    attnx.explain_generation(*whisper, audio(), max_new_tokens=3, num_beams=2, methods="rollout")
    assert model.generation_config == before
    assert all(torch.equal(one, weights[name]) for name, one in model.state_dict().items())


def test_an_unknown_language_is_refused(whisper):
    with pytest.raises(InputError, match="language"):
        attnx.explain_generation(*whisper, audio(), language="klingon")


def test_words_are_named_by_the_written_text(whisper):
    g = attnx.explain_generation(*whisper, audio(), max_new_tokens=5, language="en", methods="rollout")
    step = g.step(len(g) - 1)
    told = [one for one in step.words if one not in step.time_segments]
    assert [one.text for one in told] == [one for one in g.text.split() if one][: len(told)]
    assert len(step.time_segments) == len([one for one in step.positions if one.time is not None])


def test_a_step_lies_over_the_sound_that_was_heard_and_a_file_has_none_of_it(whisper, tmp_path):
    g = attnx.explain_generation(*whisper, audio(), max_new_tokens=2, language="en", methods="rollout")
    np.testing.assert_array_equal(g.step(0).audio.samples, audio())
    assert len(g.step(0).plot().axes) >= 2
    g.save(tmp_path / "g.safetensors")
    loaded = attnx.GenerationExplanation.load(tmp_path / "g.safetensors")
    assert loaded.audio is None
    assert loaded.step(0).seconds == g.step(0).seconds
    assert (tmp_path / "g.safetensors").stat().st_size < 200_000


@pytest.mark.slow
def test_the_real_model_writes_what_was_said_and_hears_each_word_when_it_was_spoken():
    model, processor = whisper_tiny.load()
    spoken = whisper_tiny.speak(["yesterday", "Elizabeth", "visited", "the", "university"])
    g = attnx.explain_generation(model, processor, spoken.audio, methods="raw", references="lrp")
    assert "university" in g.text
    step = next(number for number, one in enumerate(g.generated) if one.strip() == "university")
    e = g.step(step)
    own = np.array([float(e.scores("lrp")[list(one.positions)].sum()) for one in e.time_segments])
    start, end = e.positions[e.time_segments[int(own.argmax())].positions[0]].time
    said = spoken.times[spoken.words.index("university")]
    assert start < said[1] + 0.1
    assert end > said[0] - 0.1
    assert any("padding" in note for note in g.notes)
