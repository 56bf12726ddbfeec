"""Sound is explained as text and pictures are: attention as eager has it, references, and exactly one stretch."""

import numpy as np
import pytest
import torch

import attnx
from attnx.attribution.baselines import silence_audio
from attnx.errors import ChoiceError, InputError
from tests.sound_zoo import FAMILIES, audio, extractor, model, one_stretch_model, samples_extractor

LIT = ("lrp", "attn_lrp", "gradient", "input_x_gradient", "blankout", "feature_ablation")


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_is_that_of_eager(name):
    given = extractor(name)(audio(), sampling_rate=16_000, return_tensors="pt")
    given = {model(name).main_input_name: given[model(name).main_input_name]}
    seen = attnx.capture(model(name), **given)
    with torch.no_grad():
        eager = model(name, "eager")(**given, output_attentions=True)
    told = eager.attentions if "attentions" in eager else eager.encoder_attentions
    # WavLM tells its weights before its gate where it is asked for them; what is seen is what it mixes by.
    if name == "wavlm":
        assert seen.weights.shape == torch.stack(told)[:, 0].shape
        return
    torch.testing.assert_close(seen.weights.float(), torch.stack(told)[:, 0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("reference", LIT)
def test_a_model_that_reads_one_stretch_lights_exactly_that(reference):
    place = 11
    e = attnx.explain(one_stretch_model(place), samples_extractor(), audio(), methods="raw", references=reference)
    scores = np.abs(e[reference])
    assert scores.argmax() == place
    others = np.delete(scores, place)
    # Silence changes how the extractor normalises the whole sound, and so a little of every stretch.
    assert others.max() < (0.05 if reference == "blankout" else 1e-4) * scores[place]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_explained_over_time(name):
    e = attnx.explain(model(name), extractor(name), audio(), methods=("raw", "rollout"), references="lrp")
    assert e.seconds == pytest.approx(0.6)
    np.testing.assert_allclose(e["rollout"].sum(-1), 1, atol=1e-5)
    assert sum(abs(one.score) for one in e.by_word("lrp")) > 0
    facts = e.attributions["lrp"].diagnostics
    parts = e["lrp"].sum() + facts["biases"] + facts.get("sink", 0)
    assert parts == pytest.approx(facts["value"], abs=1e-4)


@pytest.mark.parametrize("name", ["wav2vec2", "hubert", "wavlm", "whisper"])
def test_a_classifier_that_answers_from_all_is_explained_by_the_mean_of_all(name):
    e = attnx.explain(model(name), extractor(name), audio(), methods="rollout", references=())
    mean = attnx.explain(model(name), extractor(name), audio(), methods="rollout", references=(), position="mean")
    np.testing.assert_array_equal(e["rollout"], mean["rollout"])
    one = attnx.explain(model(name), extractor(name), audio(), methods="rollout", references=(), position=3)
    assert np.abs(one["rollout"] - mean["rollout"]).max() > 1e-6


def test_samples_with_a_rate_a_list_and_several_sounds():
    own, hears = model("wav2vec2"), extractor("wav2vec2")
    once = attnx.explain(own, hears, audio(), methods="rollout", references=())
    listed = attnx.explain(own, hears, [float(one) for one in audio()], methods="rollout", references=())
    with_rate = attnx.explain(own, hears, {"array": audio(), "sampling_rate": 16_000}, methods="rollout", references=())
    several = attnx.explain(own, hears, [audio(), audio(0.4)], methods="rollout", references=())
    for other in (listed, with_rate, several[0]):
        np.testing.assert_allclose(other["rollout"], once["rollout"], atol=1e-6)
    assert several[1].seconds == pytest.approx(0.4)


def test_silence_is_what_the_processor_makes_of_no_sound():
    e = attnx.explain(model("wav2vec2"), extractor("wav2vec2"), audio(), methods="raw", references="blankout")
    assert e.attributions["blankout"].diagnostics["baseline"] == "silence"
    from attnx.adapters.audio import prepare_audio

    for name in ("wav2vec2", "ast", "whisper"):
        whole = prepare_audio(model(name), extractor(name), audio())
        content = [one.index for one in whole.positions if not one.special]
        quiet = prepare_audio(model(name), extractor(name), np.zeros_like(audio()))
        entry = whole.audio_input.entry
        torch.testing.assert_close(silence_audio(whole, content).inputs[entry], quiet.inputs[entry])
        # Half of the bands of a stretch, or of the stretches: nothing else is touched of a spectrum.
        if name == "ast":
            place = whole.words[4].positions[0]
            changed = silence_audio(whole, [place]).inputs[entry] != whole.inputs[entry]
            cell = whole.audio_input.cells[place]
            assert bool(changed[cell].any())
            changed[cell] = False
            assert not bool(changed.any())


def test_other_blanks_are_refused():
    with pytest.raises(ChoiceError, match="this is sound"):
        attnx.explain(model("ast"), extractor("ast"), audio(), references={"blankout": {"baseline": "[MASK]"}})


def test_neighbouring_stretches_are_blanked_together():
    e = attnx.explain(model("ast"), extractor("ast"), audio(), methods="raw", references={"blankout": {"group": 2}})
    scores = e["blankout"]
    first, second, third = (scores[list(word.positions)] for word in e.words[:3])
    np.testing.assert_allclose(first, second)
    assert np.abs(first[0] - third[0]) > 0
    with pytest.raises(ChoiceError, match="at least 1"):
        attnx.explain(model("ast"), extractor("ast"), audio(), references={"blankout": {"group": 0}})


@pytest.mark.slow
def test_faithfulness_is_measured_in_time():
    sounds = [audio(seed=seed) for seed in range(6)]
    asked = {"methods": "rollout", "references": "lrp", "random": 4}
    assert "blanked with silence" in str(attnx.faithfulness(model("ast"), extractor("ast"), sounds, **asked))


def test_ctc_asks_which_position():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    from tests.sound_zoo import BODY, CONVOLVED

    written = Wav2Vec2ForCTC(Wav2Vec2Config(**BODY, **CONVOLVED, vocab_size=12)).eval()
    with pytest.raises(ChoiceError, match="position="):
        attnx.explain(written, samples_extractor(), audio(), methods="raw", references=())


def test_an_image_is_no_sound():
    with pytest.raises(InputError, match="audio"):
        attnx.explain(model("wav2vec2"), extractor("wav2vec2"), {"pixel_values": torch.zeros(1, 3, 8, 8)})
