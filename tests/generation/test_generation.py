"""Generated text: each new token explained over all before it, in one pass that equals going step by step."""

import copy
import json
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch

import attnx
from attnx.errors import CaptureError, ChoiceError, FileFormatError, InputError
from attnx.pipeline import options as plan
from tests import zoo
from tests.made import with_scores

matplotlib.use("Agg")

PROMPT = "the key to the cabinets"
MODEL, TOKENIZER = zoo.causal_lm(fresh=True), zoo.bytelevel_tokenizer()  # ends the text at once where it may


@pytest.fixture(scope="module")
def generation():
    # The tiny model would end the text at once.
    return attnx.explain_generation(MODEL, TOKENIZER, PROMPT, max_new_tokens=5, min_new_tokens=5)


def whole_ids(generation):
    return torch.tensor([TOKENIZER.convert_tokens_to_ids(list(generation.tokens))])


def test_rows_are_what_explain_says_step_by_step(generation):
    ids = whole_ids(generation)
    assert generation["rollout"].shape == (5, ids.shape[1] - 1)
    for step in range(5):
        seen = generation.prompt_length + step
        one = attnx.explain(MODEL, TOKENIZER, {"input_ids": ids[:, :seen]})
        for method in ("raw", "rollout", "flow"):
            np.testing.assert_allclose(generation[method][step, :seen], one[method][-1], atol=1e-5)
            assert not generation[method][step, seen:].any()
        np.testing.assert_allclose(generation.predictions[step].logits[0], one.prediction.logits[0], atol=1e-4)


def test_the_model_writes_as_it_would_by_itself(generation):
    inputs = TOKENIZER(PROMPT, return_tensors="pt")
    alone = MODEL.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    assert alone[0].tolist() == whole_ids(generation)[0].tolist()
    logits = MODEL(alone).logits[0].softmax(-1).detach()
    places = range(generation.prompt_length - 1, alone.shape[1] - 1)
    expected = [float(logits[place, alone[0, place + 1]]) for place in places]
    np.testing.assert_allclose(generation.probabilities, expected, atol=1e-6)


def test_the_model_and_its_generation_config_are_untouched():
    model = copy.deepcopy(MODEL).train()
    model.generation_config.top_k = 7
    before = copy.deepcopy(model.generation_config.to_dict())
    attnx.explain_generation(model, TOKENIZER, PROMPT, max_new_tokens=2, do_sample=True, top_p=0.9)
    assert model.generation_config.to_dict() == before
    assert model.training


def test_a_given_continuation_is_explained_as_it_stands():
    given = attnx.explain_generation(MODEL, TOKENIZER, "the key to the", continuation=" cabinets is")
    whole = TOKENIZER("the key to the cabinets is")["input_ids"]
    assert list(given.tokens) == TOKENIZER.convert_ids_to_tokens(whole)
    assert "".join(given.generated) == " cabinets is"
    assert [word.text for word in given.words] == ["the", "key", "to", "the", "cabinets", "is"]
    halved = attnx.explain_generation(MODEL, TOKENIZER, "the k", continuation="ey")
    assert "".join(halved.generated).endswith("ey")


@pytest.mark.parametrize("prepend_token", [None, 7])
@pytest.mark.parametrize(("spans", "count"), [("sentences", 2), ("lines", 1), (["key", "box"], 2)])
def test_spans_of_a_given_continuation_are_parts_of_the_prompt(spans, count, prepend_token):
    prompt, reply = "The key is here. The box", " is not. It is a key.\nYes"
    options = {"spans": spans, "prepend_token": prepend_token, "methods": "rollout"}
    g = attnx.explain_generation(MODEL, TOKENIZER, prompt, continuation=reply, **options)
    sums = g.by_span()
    assert len(sums) == count
    assert all(len(one) == len(g) for one in sums.values())
    assert max(place for one in g.spans for place in one.positions) < g.prompt_length
    with pytest.raises(InputError, match="does not stand in the text"):
        attnx.explain_generation(MODEL, TOKENIZER, prompt, continuation=reply, spans=["Yes"])


def test_words_are_those_written_so_far(generation):
    given = attnx.explain_generation(MODEL, TOKENIZER, "the key to the", continuation=" cabinets")
    assert given.step(2).words[-1].text == "cab"
    assert generation.text.startswith(PROMPT)
    assert [word.text for word in generation.step(0).words] == PROMPT.split()
    assert generation.step(-1).position == len(generation.positions) - 2


@pytest.mark.parametrize("more", [" é 語x 😀!", " plain", "語", " a\u0301"])
def test_generated_characters_of_several_tokens_are_read_as_in_a_given_text(more, monkeypatch):
    ids = TOKENIZER(PROMPT + more, return_tensors="pt")["input_ids"]
    monkeypatch.setattr(MODEL, "generate", lambda **_: ids, raising=False)
    one = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="raw")
    given = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, continuation=more, methods="raw")
    assert one.text == given.text == PROMPT + more
    assert one.words == given.words
    assert one.positions == given.positions


def test_a_step_has_the_text_that_was_there(generation):
    assert generation.step(0).text == PROMPT
    assert generation.text.startswith(generation.step(2).text)
    given = attnx.explain_generation(MODEL, TOKENIZER, "the key to the", continuation=" cabinets")
    assert given.step(2).text == "the key to the cab"


@pytest.mark.parametrize("more", [" 2018-01", " 3.5", " well-known", " table\n\n is"])
def test_a_step_knows_what_its_text_alone_would_tell(more):
    given = attnx.explain_generation(MODEL, TOKENIZER, "the key is:", continuation=more, methods="raw")
    for number in range(len(given)):
        step = given.step(number)
        alone = attnx.explain(MODEL, TOKENIZER, step.text, methods="raw")
        if alone.tokens == step.tokens:  # a text that is cut within a word may be tokenised otherwise
            assert (step.words, step.positions) == (alone.words, alone.positions)
        assert all(word.text in step.text for word in step.words)


def test_a_step_does_not_show_a_character_that_was_half_written():
    given = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, continuation=" 😀!", methods="raw")
    shown = [given.step(number).text[len(PROMPT) :] for number in range(len(given))]
    assert [text for text in shown if "😀" in text] == [" 😀"]
    assert " \ufffd" in shown


def test_a_wrong_choice_is_told_before_anything_is_written(monkeypatch):
    monkeypatch.setattr(MODEL, "generate", lambda **_: pytest.fail("the model wrote"), raising=False)
    with pytest.raises(ChoiceError, match="normalize 'colum' is not known"):
        attnx.explain_generation(MODEL, TOKENIZER, PROMPT, normalize="colum")


def test_every_setting_of_generate_is_on_record(tmp_path):
    options = {"suppress_tokens": torch.tensor([0]), "stop_strings": ["zzz"], "min_new_tokens": 2}
    one = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, max_new_tokens=2, methods="raw", **options)
    one.save(tmp_path / "g.safetensors")
    again = attnx.GenerationExplanation.load(tmp_path / "g.safetensors").provenance["settings"]["generation"]
    assert again == {"suppress_tokens": "tensor([0])", "stop_strings": ["zzz"], "min_new_tokens": 2}


def test_layer_and_head_choose(generation):
    ids = whole_ids(generation)
    attention = attnx.capture(MODEL, input_ids=ids)
    chosen = {"methods": "rollout", "layer": 2, "head": 1, "residual": 0.3}
    one = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, max_new_tokens=5, min_new_tokens=5, **chosen)
    rows = list(range(generation.prompt_length - 1, ids.shape[1] - 1))
    expected = attnx.rollout(attention, layer=2, head=1, residual=0.3, normalize="prefix")[rows, :-1]
    np.testing.assert_allclose(one["rollout"], expected, atol=1e-6)
    assert one.layers == (2,)


def test_long_texts_take_the_road_by_rows(generation, monkeypatch):
    monkeypatch.setattr(plan, "LONG_INPUT", 4)
    long = attnx.explain_generation(
        MODEL, TOKENIZER, PROMPT, max_new_tokens=5, min_new_tokens=5, methods=("raw", "rollout")
    )
    for method in long.methods:
        np.testing.assert_allclose(long[method], generation[method], atol=1e-5)
    np.testing.assert_allclose(long.probabilities, generation.probabilities, atol=1e-6)


def test_the_end_at_once_is_told():
    ended = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="rollout")
    assert len(ended) == 1
    assert ended.positions[-1].special
    assert "ended the text immediately" in ended.notes[0]


def test_the_models_positions_are_the_end():
    long = " ".join(["the"] * 29)
    limited = attnx.explain_generation(MODEL, TOKENIZER, long, max_new_tokens=50, min_new_tokens=6, methods="raw")
    assert len(limited.positions) == 64
    assert "the model takes 64 positions" in limited.notes[0]
    full = "t" * 64
    assert len(TOKENIZER(full)["input_ids"]) == 64
    with pytest.raises(InputError, match="no new token fits"):
        attnx.explain_generation(MODEL, TOKENIZER, full, max_new_tokens=1)


def test_bad_questions_say_what_to_change():
    def ask(model=MODEL, tokenizer=TOKENIZER, prompt=PROMPT, **options):
        return attnx.explain_generation(model, tokenizer, prompt, **options)

    with pytest.raises(CaptureError, match="BertForMaskedLM generates no text: load a decoder"):
        ask(zoo.masked_lm(), zoo.wordpiece_tokenizer())
    with pytest.raises(CaptureError, match="GPT2Model generates no text"):
        ask(MODEL.transformer)
    with pytest.raises(InputError, match=r"the text has .* tokens, the model takes 64"):
        ask(prompt="the key " * 50)
    with pytest.raises(InputError, match="max_new_tokens must be at least 1, found 0"):
        ask(max_new_tokens=0)
    for number in ("5", 2.5, True, None):
        with pytest.raises(ChoiceError, match="max_new_tokens must be a whole number"):
            ask(max_new_tokens=number)
    with pytest.raises(InputError, match="num_beans is no setting"):
        ask(num_beans=3)
    with pytest.raises(InputError, match=r"model.generate refused \(ValueError: .*top_k"):
        ask(do_sample=True, top_k=-1)
    with pytest.raises(InputError, match="max_length cannot be set here"):
        ask(max_length=30)
    with pytest.raises(InputError, match="do_sample needs the model to generate"):
        ask(continuation=" is", do_sample=True)
    with pytest.raises(InputError, match="neither empty"):
        ask(continuation="")
    with pytest.raises(ChoiceError, match="head='all'"):
        ask(head="all")
    with pytest.raises(ChoiceError, match="layer 9 was requested, but the model has 3"):
        ask(layer=9, methods="rollout")


def test_a_generation_can_be_read_and_kept(generation):
    lines = str(generation).splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("generated tokens: 5 · lrp, measured on the model")
    assert lines[1].startswith("lrp: measured by lrp alone")
    assert len({line.split("  ")[0] for line in lines[2:]}) > 1
    table = generation.to_frame()
    sums = table[table.method == "rollout"].groupby("step").score.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-6)
    assert json.loads(json.dumps(generation.to_dict()))["prompt_length"] == generation.prompt_length
    assert repr(generation).startswith(
        "GenerationExplanation(14 tokens of prompt, 5 generated, lrp, rollout, raw, flow"
    )
    with pytest.raises(ChoiceError, match="step 5 was requested, but 5 tokens"):
        generation.step(5)
    with pytest.raises(ChoiceError, match="did you mean 'rollout'"):
        generation["rolout"]


def test_the_matrix_is_drawn_on_given_axes(generation):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert generation.plot("rollout", ax=axes) is axes
    shown = axes.images[0].get_array()
    assert shown.shape == generation["rollout"].shape
    assert shown.mask[0].sum() == 4
    assert len(axes.get_yticklabels()) == 5
    assert generation.plot("flow").images


def test_what_was_saved_is_loaded(generation, tmp_path):
    file = tmp_path / "g.safetensors"
    generation.save(file)
    same = attnx.GenerationExplanation.load(file)
    assert same.to_dict() == generation.to_dict()
    assert same.methods == generation.methods
    other = tmp_path / "e.safetensors"
    generation.step(0).save(other)
    with pytest.raises(FileFormatError, match="holds no explained generation"):
        attnx.GenerationExplanation.load(other)
    with pytest.raises(FileFormatError, match="is no explained generation"):
        attnx.GenerationExplanation.load(tmp_path / "missing")


def test_each_step_has_the_account_of_its_own_row():
    written = attnx.explain_generation(
        MODEL, TOKENIZER, PROMPT, methods="alti_logit", max_new_tokens=3, min_new_tokens=3
    )
    read = attnx.GenerationExplanation.from_json(written.to_json())
    told = [read.step(number).attributions["alti_logit"].diagnostics for number in range(3)]
    assert len({one["account"] for one in told}) == 3
    ids = whole_ids(written)
    for number, one in enumerate(told):
        seen, after = ids[:, : written.prompt_length + number], int(ids[0, written.prompt_length + number])
        alone = attnx.explain(MODEL, TOKENIZER, {"input_ids": seen}, methods="alti_logit", target=after)
        expected = alone.attributions["alti_logit"].diagnostics
        assert one["biases"] == pytest.approx(expected["biases"], abs=1e-4)


def test_a_note_of_a_later_step_is_kept(monkeypatch):
    from attnx.generation import explain as module

    def noted(*given, **named):
        for number, one in explain_prepared(*given, **named):
            yield number, replace(one, notes=("of all", f"of step {number}"))

    explain_prepared = module.explain_prepared
    monkeypatch.setattr(module, "explain_prepared", noted)
    written = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="raw", max_new_tokens=2, min_new_tokens=2)
    assert written.notes == ("of all", "of step 0", "of step 1")


def test_a_signed_method_is_drawn_on_both_sides_though_nothing_speaks_against(generation):
    signed = with_scores(generation, signed=frozenset({"rollout"}))
    lows = [one.plot("rollout").images[0].get_clim()[0] for one in (generation, signed)]
    assert lows == [0, -generation["rollout"].max()]


def test_how_much_is_from_the_prompt_is_the_share_of_its_columns(generation):
    for name in generation.methods:
        sizes = np.abs(generation[name])
        expected = sizes[:, : generation.prompt_length].sum(1) / sizes.sum(1)
        np.testing.assert_allclose(generation.from_front(name), expected)
    assert generation.from_front()[0] == pytest.approx(1.0)
    assert "  100%  " in generation.to_text()
