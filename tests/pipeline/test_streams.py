"""`explain` of encoder–decoders: the next, one or every token of the output, over the source and what is written."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.adapters import adapter_for
from attnx.demo_models.dates import load_demo
from attnx.errors import ChoiceError, InputError
from tests import streams_zoo, zoo
from tests.sound_zoo import audio

SOURCE, TARGET = "on friday the third of march 1998", "1998 03"
TEXTS = [name for name in streams_zoo.FAMILIES if name != "whisper"]


def explain(source=SOURCE, **options):
    return attnx.explain(*load_demo(), source, **{"methods": ("rollout", "alti"), **options})


def test_the_next_token_is_explained_over_source_and_output():
    e = explain(target_text=TARGET, references="lrp")
    assert (e.prediction.label, e.sequences) == ("03", {"source": 8, "output": 3})
    assert e.text == (SOURCE, TARGET)
    assert e.explained == "03"
    for method in ("rollout", "alti", "lrp"):
        assert e.top(1, method)[0].text == "third"
    assert [word.segment for word in e.words] == [0] * 7 + [1] * 2


def test_without_a_target_it_is_the_first_token_that_the_model_writes():
    e = explain()
    assert (e.prediction.label, e.explained, e.sequences["output"]) == ("1998", "<bos>", 1)
    assert e.top(1, "alti")[0].text == "1998"


@pytest.mark.parametrize("kind", ["Bart", "Marian", "Whisper"])
def test_an_end_token_that_the_tokenizer_adds_is_not_written_yet(kind):
    """Neither is the start token that it puts in front generated; Whisper's end token is its unknown token, too."""
    tokenizer = zoo.framing_tokenizer()
    start, end = tokenizer.convert_tokens_to_ids("<|start|>"), tokenizer.eos_token_id
    sizes = streams_zoo.BART | {"vocab_size": len(tokenizer), "eos_token_id": end, "pad_token_id": end}
    places = {"max_source_positions": 100, "max_target_positions": 32} if kind == "Whisper" else {}
    model_class = getattr(hf, "MarianMTModel" if kind == "Marian" else f"{kind}ForConditionalGeneration")
    torch.manual_seed(0)
    model = model_class(getattr(hf, f"{kind}Config")(**sizes, **places, decoder_start_token_id=start)).eval()
    processor = SimpleNamespace(feature_extractor=hf.WhisperFeatureExtractor(chunk_length=2), tokenizer=tokenizer)
    given = (model, processor, audio()) if kind == "Whisper" else (model, tokenizer, "the key")
    e = attnx.explain(*given, target_text="the keys", methods="raw")
    tokens = tokenizer.tokenize("the keys")
    assert [one.token for one in e.positions[e.sequences["source"] :]] == ["<|start|>", *tokens]
    g = attnx.explain_generation(*given, continuation="the keys", methods="raw")
    assert ("".join(g.generated), len(g)) == ("the keys", len(tokens))


def test_special_tokens_that_the_caller_wrote_at_the_end_are_kept():
    """T5 is told by them what to write next."""
    tokenizer = copy.deepcopy(zoo.framing_tokenizer())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<extra_id_0>"]})
    torch.manual_seed(0)
    model = hf.T5ForConditionalGeneration(hf.T5Config(**streams_zoo.T5 | {"vocab_size": len(tokenizer)})).eval()
    e = attnx.explain(model, tokenizer, "the key", target_text="the keys<extra_id_0>", methods="raw")
    assert e.positions[-1].token == "<extra_id_0>"


def test_one_token_of_the_output_is_the_one_that_was_written_there():
    e = explain(target_text="1998 07 03", position=9)
    assert (e.prediction.label, e.position) == ("07", 9)
    assert e.prediction.probability < 0.5
    with pytest.raises(ChoiceError, match=r"position 3 is in the source.*give 8 \(the start\) to 11"):
        explain(target_text="1998 07 03", position=3)


def test_every_token_is_explained_in_one_run():
    every = explain(target_text="1998 03 03", position="all")
    assert [one.prediction.label for one in every] == ["1998", "03", "03", "<eos>"]
    for place, one in enumerate(every):
        alone = explain(target_text="1998 03 03", position=8 + place)
        np.testing.assert_allclose(one["alti"], alone["alti"], atol=1e-7)
    with pytest.raises(ChoiceError, match="explain_generation"):
        attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key", position="all")


def test_shares_tell_how_much_is_from_each_stream():
    e = explain(target_text=TARGET, references="lrp", methods=("rollout", "alti"))
    assert e.split_by_residual("rollout")
    assert not e.split_by_residual("alti")
    assert e.shares == e.sequence_shares("alti")
    assert sum(e.shares.values()) == pytest.approx(1)
    assert "rollout: 75% from the source, 25% from the output so far, set by the residual alone" in e.to_text()
    shown = attnx.explain(*load_demo(), SOURCE, target_text=TARGET)
    assert "lrp: 89% from the source" in shown.to_text()
    assert attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key").shares == {}


def test_two_targets_stand_against_each_other():
    e = explain(target_text=TARGET, target=("03", "04"), references="lrp")
    assert (e.prediction.label, e.prediction.against) == ("03", "04")
    assert e.attributions["lrp"].diagnostics["value"] > 0


@pytest.mark.parametrize("layer", ["cross 1", 4])
def test_a_level_is_named(layer):
    e = explain(target_text=TARGET, layer=layer)
    assert e.layers == (4,)


class TestWithin:
    """Levels of one kind alone, over the positions of both streams."""

    def captured(self, kind):
        model, tokenizer = load_demo()
        ids = torch.tensor([[model.config.decoder_start_token_id, *tokenizer(TARGET)["input_ids"][:-1]]])
        return attnx.capture(model, module=kind, **tokenizer(SOURCE, return_tensors="pt"), decoder_input_ids=ids)

    def test_self_attention_is_that_of_the_output_by_itself(self):
        e = explain(target_text=TARGET, module="self", methods="rollout", normalize=None)
        np.testing.assert_allclose(e["rollout"][:, 8:], attnx.rollout(self.captured("self"))[:, -1], atol=1e-6)
        assert not e["rollout"][:, :8].any()
        assert e.provenance["settings"]["layer_kinds"] == ["self", "self"]

    def test_cross_attention_is_rolled_out_over_the_encoders_top(self):
        e = explain(target_text=TARGET, module="cross", methods="rollout", normalize=None)
        first, second = (attnx.raw(self.captured("cross"), layer=number)[-1, :8] for number in (1, 2))
        by_hand = torch.cat([second / 2 + first / 4, torch.tensor([0.0, 0.0, 0.25])])
        np.testing.assert_allclose(e["rollout"][-1], by_hand, atol=1e-6)
        assert e.prediction.label == "03"
        assert any(note.startswith("module='cross': methods follow these levels alone") for note in e.notes)

    @pytest.mark.parametrize("method", ["raw", "flow", "alti", "norm_rollout", "gradient_rollout", "gradient_flow"])
    @pytest.mark.parametrize("kind", ["self", "cross"])
    def test_every_method_of_two_streams_has_it(self, kind, method):
        e = explain(target_text=TARGET, module=kind, methods=method)
        assert e.layers == (1, 2)
        assert np.isfinite(e[method]).all()
        assert e[method][-1, :8].any() == (kind == "cross")

    @pytest.mark.parametrize("module", ["encoder", "decoder.block", "crss"])
    def test_what_writes_nothing_is_refused_with_what_can_be_asked(self, module):
        with pytest.raises(
            ChoiceError, match=r"module='self' \(the output to itself\), module='cross' .*layer='cross 1'"
        ):
            explain(target_text=TARGET, module=module)

    @pytest.mark.parametrize("name", ["t5", "bart", "bert-gpt2", "whisper"])
    def test_the_call_that_is_named_for_the_encoder_works(self, name):
        with pytest.raises(ChoiceError, match=r"source is attnx.explain\(model.get_encoder\(\), ") as refusal:
            of_family(name, module="encoder")
        named = str(refusal.value).rpartition("source is ")[2]
        audio = {"input_features": streams_zoo.inputs("whisper")["input_features"]}
        things = {"model": streams_zoo.model(name), "text": "the key to", "audio": audio, "attnx": attnx}
        words = zoo.wordpiece_tokenizer()
        e = eval(named, {**things, "tokenizer": words, "processor": words})  # as a reader would paste it
        assert len(e.layers) == 2


def test_a_list_of_sources_may_have_targets_of_their_own():
    several = explain([SOURCE, "2011 may 9"], target_text=[TARGET, "2011"])
    alone = [explain(target_text=TARGET), explain("2011 may 9", target_text="2011")]
    for one, other in zip(several, alone, strict=True):
        assert one.prediction.label == other.prediction.label
        np.testing.assert_allclose(one["rollout"], other["rollout"], atol=1e-6)
    with pytest.raises(InputError, match="1 targets for 2 inputs"):
        explain([SOURCE, SOURCE], target_text=["1998"])


def test_it_is_saved_and_loaded(tmp_path):
    e = explain(target_text=TARGET)
    e.save(tmp_path / "e.safetensors")
    assert attnx.Explanation.load(tmp_path / "e.safetensors") == e
    assert attnx.Explanation.from_json(e.to_json()).sequences == e.sequences


@pytest.mark.parametrize("name", streams_zoo.FAMILIES)
def test_source_output_and_biases_add_up_to_the_score(name):
    e = of_family(name, methods="rollout", references="lrp")
    facts = e.attributions["lrp"].diagnostics
    parts = float(e["lrp"].sum()) + facts["sink"] + facts["biases"]
    assert parts == pytest.approx(facts["value"], abs=1e-4)
    assert np.abs(e["lrp"][: e.sequences["source"]]).max() > 0


@pytest.mark.parametrize("name", [name for name in ("t5gemma", "fsmt") if name in streams_zoo.FAMILIES])
def test_answers_are_read_where_the_decoder_gives_them(name):
    """The source is shorter than the output: positions of both lie inside the output."""
    model, tokenizer = streams_zoo.model(name), zoo.wordpiece_tokenizer()
    text = "the key to the cabinets is on a table"
    given = {"target_text": text, "position": 5, "methods": "rollout"}
    e = attnx.explain(model, tokenizer, "it", **given, references=("lrp", "blankout"))
    written = torch.tensor([[1, *tokenizer(text)["input_ids"][:-1]]])
    inputs = {name: one for name, one in tokenizer("it", return_tensors="pt").items() if name != "token_type_ids"}
    with torch.no_grad():
        answers = model(**inputs, decoder_input_ids=written, use_cache=False).logits[0]
    expected = margin(answers[5 - 3], e.prediction.index)
    facts = {name: scores.diagnostics for name, scores in e.attributions.items()}
    assert facts["lrp"]["value"] == pytest.approx(expected, abs=1e-4)
    assert facts["blankout"]["before"] == pytest.approx(expected, abs=1e-4)


def margin(logits, index):
    return float(logits[index] - (logits.sum() - logits[index]) / (len(logits) - 1))


def of_family(name, **options):
    source = {"input_features": streams_zoo.inputs("whisper")["input_features"]} if name == "whisper" else "the key to"
    model, tokenizer = streams_zoo.model(name), zoo.wordpiece_tokenizer()
    return attnx.explain(model, tokenizer, source, target_text="the book", **options)


class TestStartOfTheOutput:
    """It is the same whatever is written: what later positions take from it is the sink's."""

    def both(self, **options):
        return [
            explain(methods="rollout", references={"lrp": {} if sink else {"sink": False}}, **options)
            for sink in (True, False)
        ]

    def test_what_it_gives_to_later_positions_is_kept_apart(self):
        apart, inside = self.both(target_text=TARGET)
        start, facts = apart.sequences["source"], apart.attributions["lrp"].diagnostics
        assert apart["lrp"][start] == 0
        assert facts["sink"] == pytest.approx(float(inside["lrp"][start]), rel=1e-4)
        assert f"sink {facts['sink']:+.4g}" in facts["account"]
        others = np.arange(len(apart.positions)) != start
        expected = inside["lrp"][others]
        np.testing.assert_allclose(apart["lrp"][others], expected, atol=1e-4)
        assert apart.sequence_shares("lrp")["output"] < inside.sequence_shares("lrp")["output"]

    def test_what_it_says_of_the_first_token_is_its_own(self):
        apart, inside = self.both()
        np.testing.assert_allclose(apart["lrp"], inside["lrp"], atol=1e-4)
        assert apart.attributions["lrp"].diagnostics["sink"] == 0

    def test_all_of_it_leaves_by_the_values_of_self_attention(self):
        """In one decoder layer they know nothing of the source yet: sink = (∂S/∂v − ∂S/∂o) · v at the start."""
        from attnx.linearize import LRP, linearized_run
        from attnx.targets import Target, encode_targets
        from attnx.targets.score import score

        torch.manual_seed(0)
        model = (
            hf.T5ForConditionalGeneration(hf.T5Config(**{**streams_zoo.T5, "num_decoder_layers": 1})).eval().double()
        )
        tokenizer = zoo.wordpiece_tokenizer()
        e = attnx.explain(model, tokenizer, "the key to", target_text="the book", references="lrp")
        ids = torch.tensor([tokenizer("the key to")["input_ids"]])
        written = torch.tensor([[0, *tokenizer("the book")["input_ids"][:-1]]])
        inputs = {"input_ids": ids, "decoder_input_ids": written}
        targets = encode_targets([Target(e.prediction.index, e.position)], ids.device)
        entry = (model.shared, model.get_decoder().get_input_embeddings())
        run = linearized_run(model, lambda: score(model, inputs, targets, "margin"), LRP, entry=entry, ends=slice(0, 1))
        own = next(one for one in run.kernels if one.module.startswith("decoder") and "SelfAttention" in one.module)
        expected = float(((own.values_gradient - own.outputs_gradient) * own.values).sum())
        assert e.attributions["lrp"].diagnostics["sink"] == pytest.approx(expected, rel=1e-4)

    def test_of_a_list_each_has_its_own(self):
        given = [(SOURCE, TARGET), ("2011 may 9", "2011")]
        several = explain([one for one, _ in given], target_text=[one for _, one in given], references="lrp")
        for found, (source, target) in zip(several, given, strict=True):
            alone = explain(source, target_text=target, references="lrp")
            np.testing.assert_allclose(found["lrp"], alone["lrp"], atol=1e-3)
            sinks = [one.attributions["lrp"].diagnostics["sink"] for one in (found, alone)]
            assert sinks[0] == pytest.approx(sinks[1], abs=1e-3)

    def test_how_much_attention_goes_there_is_told_level_by_level(self):
        e = explain(target_text=TARGET)
        ids = torch.tensor([[load_demo()[0].config.decoder_start_token_id, *load_demo()[1](TARGET)["input_ids"][:-1]]])
        attention = attnx.capture(load_demo()[0], **load_demo()[1](SOURCE, return_tensors="pt"), decoder_input_ids=ids)
        expected = [
            attention.weights[number - 1][:, 9:, 8].mean() if kind == "self" else 0.0
            for number, kind in enumerate(attention.kinds, start=1)
        ]
        np.testing.assert_allclose(e.sink, expected, atol=1e-6)
        assert min(e.sink[number - 1] for number in attention.layers_of_kind("self")) > 0.4
        assert explain().sink is None  # nothing is written yet

    @pytest.mark.parametrize("method", ["rollout", "flow", "alti", "gradient_rollout"])
    def test_dropped_it_takes_nothing(self, method):
        e = explain(target_text=TARGET, methods=method, drop_sink=True, normalize=None)
        assert e[method][-1, e.sequences["source"]] == pytest.approx(0, abs=1e-9)
        assert e[method][-1, e.sequences["source"] + 1 :].sum() > 0


@pytest.mark.parametrize("reference", ["gradient", "blankout"])
@pytest.mark.parametrize("name", ["t5", "bart", "marian", "bert-gpt2", "whisper"])
def test_references_reach_both_streams(name, reference):
    e = of_family(name, methods="rollout", references=reference)
    source, output = np.split(e[reference], [e.sequences["source"]])
    assert np.abs(source).max() > 0
    assert np.abs(output).max() > 0


def test_the_gradient_is_that_of_both_embeddings():
    model, tokenizer = streams_zoo.model("t5"), zoo.wordpiece_tokenizer()
    e = attnx.explain(model, tokenizer, "the key to", target_text="the book", references={"gradient": {}})
    ids = torch.tensor([tokenizer("the key to")["input_ids"]])
    written = torch.tensor([[0, *tokenizer("the book")["input_ids"][:-1]]])
    embedded = [model.shared(one).detach().requires_grad_() for one in (ids, written)]
    logits = model(inputs_embeds=embedded[0], decoder_inputs_embeds=embedded[1]).logits[0, -1]
    found = torch.autograd.grad(logits[e.prediction.index], embedded)
    norms = torch.cat([one[0].norm(dim=-1) for one in found])
    np.testing.assert_allclose(e["gradient"], norms, rtol=1e-3)


@pytest.mark.parametrize("method", ["gradient_rollout", "gradient_flow", "effective_rollout"])
def test_methods_beyond_attention_answer(method):
    e = explain(target_text=TARGET, methods=method)
    assert np.isfinite(e[method]).all()


@pytest.mark.parametrize("method", ["alti_logit", "globenc", "value_zeroing"])
def test_what_is_not_defined_is_refused_in_a_line(method):
    with pytest.raises(attnx.AttnxError, match=r"one stack|a single stack"):
        explain(target_text=TARGET, methods=method)


def test_gradients_of_weights_equal_autograd_on_eager_cross_attention():
    """∂s/∂A of cross-attention in double precision, against a model whose weights are in the graph."""
    from attnx.hooks import capture_batch

    name = "bart"
    model = streams_zoo.FAMILIES[name]().eval().double()
    zoo.grad_mode(model, "eager")
    inputs = streams_zoo.inputs(name)
    output = model(**inputs, output_attentions=True)
    margin = output.logits[0, -1, 7] - output.logits[0, -1, 9]
    expected = torch.autograd.grad(margin, output.cross_attentions[1])[0][0] * output.cross_attentions[1][0]
    from attnx.graph.gradient import attention_x_gradient
    from attnx.pipeline.pipeline import Observation, with_answer_gradient
    from attnx.targets import Target

    entry = (model.get_input_embeddings(), model.get_decoder().get_input_embeddings())
    seen = capture_batch(model, inputs, extras=("values",), entry=entry)
    known = with_answer_gradient(model, Observation(seen.attention[0], seen.output, 0), Target(7, 11, 9))
    level = known.layers[known.number("cross 2") - 1]
    found = attention_x_gradient(level, 7, 12).weights[..., :7]
    torch.testing.assert_close(found, expected.detach(), atol=1e-9, rtol=1e-4)


def test_sound_has_stretches_of_time():
    e = of_family("whisper", methods="rollout")
    # Position 3 hears frames 4 to 8, and frame 6 is its middle.
    assert e.positions[3].time == (0.055, 0.075)
    assert e.sequences["source"] == 20


def generation(**options):
    return attnx.explain_generation(*load_demo(), SOURCE, **options)


def test_each_token_that_is_generated_is_explained_over_both_streams():
    g = generation()
    assert g.generated == ("1998", "03", "03", "<eos>")
    assert (g.front, g.prompt_length) == (("source", 8), 9)
    assert [g.step(number).top(1)[0].text for number in range(3)] == ["1998", "march", "third"]
    assert "% the share of the source" in g.to_text()
    assert attnx.GenerationExplanation.from_json(g.to_json()) == g


def test_a_step_is_what_explain_says_of_that_token():
    g = generation(methods=("rollout", "alti"), references="lrp")
    for number, target in ((0, None), (2, "1998 03")):
        e = explain(target_text=target, references="lrp")
        step = g.step(number)
        assert (step.sequences, step.prediction.label) == (e.sequences, e.prediction.label)
        for name in ("rollout", "alti", "lrp"):
            np.testing.assert_allclose(step.scores(name), e.scores(name), atol=1e-4)


@pytest.mark.parametrize("how", [{"num_beams": 3}, {"do_sample": True, "top_k": 3}, {"max_new_tokens": 2}])
def test_it_writes_as_generate_does(how):
    model, tokenizer = load_demo()
    torch.manual_seed(0)
    written = model.generate(
        **tokenizer(SOURCE, return_tensors="pt"), **{"max_new_tokens": 20, "do_sample": False, **how}
    )
    torch.manual_seed(0)
    g = generation(methods="rollout", **how)
    assert [one.index for one in g.predictions] == written[0, 1:].tolist()


def test_a_text_that_is_given_is_explained_and_set_against_runners_up():
    g = generation(continuation="1998 07", methods="alti", references="lrp", contrast=True)
    assert g.generated == ("1998", "07")
    assert g.contrasts[1].against == "03"
    assert float(g.against["lrp"][1].sum()) < 0


class TestBadInput:
    def test_a_model_without_a_start_token_needs_a_target(self):
        model = streams_zoo.FAMILIES["bert-bert"]().eval()
        model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = None
        model.config.bos_token_id = model.config.decoder.bos_token_id = None
        with pytest.raises(InputError, match="a target is needed"):
            attnx.explain(model, zoo.wordpiece_tokenizer(), "the key")

    def test_a_target_longer_than_the_positions(self):
        with pytest.raises(InputError, match=r"has 65 tokens with its start.*64 positions"):
            attnx.explain(streams_zoo.model("bart"), zoo.wordpiece_tokenizer(), "the", target_text="the " * 64)

    def test_a_source_that_is_cut_is_said(self):
        model, tokenizer = streams_zoo.model("bart"), zoo.wordpiece_tokenizer()
        with pytest.raises(InputError, match="the model takes 64"):
            attnx.explain(model, tokenizer, "the key " * 40)
        e = attnx.explain(model, tokenizer, "the key " * 40, truncate=True, methods="rollout")
        assert "cut to 64 of 82 tokens" in " ".join(e.notes)

    @pytest.mark.parametrize("how", [{"max_new_tokens": 2}, {"continuation": "to the"}], ids=["written", "read"])
    def test_a_source_that_is_cut_before_something_is_written_is_said(self, how):
        model, tokenizer = streams_zoo.model("bart"), zoo.wordpiece_tokenizer()
        with pytest.raises(InputError, match=r"the model takes 64.*truncate=True"):
            attnx.explain_generation(model, tokenizer, "the key " * 40, methods="rollout", **how)
        g = attnx.explain_generation(model, tokenizer, "the key " * 40, truncate=True, methods="rollout", **how)
        assert g.sequences["source"] == 64
        assert "cut to 64 of 82 tokens" in " ".join(g.notes)

    def test_decoder_inputs_without_the_start_token(self):
        with pytest.raises(InputError, match=r"begins with token 9.*start token 2"):
            explain(target_text=[9, 10])
        assert explain(target_text=torch.tensor([[2, 9]])).sequences["output"] == 2

    @pytest.mark.parametrize("target", ["", "  ", 3.5, [], object()])
    def test_what_is_no_target(self, target):
        with pytest.raises(InputError, match="target_text"):
            explain(target_text=target)

    def test_token_ids_that_the_model_does_not_have(self):
        with pytest.raises(InputError, match=r"the target has token 99999, and T5\w+ embeds \d+ of them"):
            explain(target_text=[2, 99999])

    def test_words_that_are_not_in_the_vocabulary(self):
        e = explain(target_text="1998 zebra", methods="rollout")
        assert "not in the vocabulary, read as <unk> in the target: zebra" in e.notes
        with pytest.raises(ChoiceError, match="target 'zebra' is not in the vocabulary, and would be read as <unk>"):
            explain(target_text=TARGET, target="zebra")

    def test_capture_without_an_output(self):
        model, tokenizer = load_demo()
        ids = tokenizer(SOURCE, return_tensors="pt")
        with pytest.raises(
            attnx.AttnxError, match=r"none is given: decoder_input_ids=.*capture\(model.get_encoder\(\)"
        ):
            attnx.capture(model, **ids)
        assert attnx.capture(model.get_encoder(), **ids).num_layers == 2

    def test_options_of_explain_are_no_settings_of_generation(self):
        with pytest.raises(InputError, match=r"module is an option of explain: explain\(…, target_text=…, module=…\)"):
            generation(module="cross")

    def test_a_model_of_one_stream_has_no_target_text(self):
        with pytest.raises(InputError, match="encoder–decoder has generated; BertForSequenceClassification"):
            attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", target_text="no")

    def test_another_language_than_the_model_is_set_to_is_noted(self):
        model, tokenizer = streams_zoo.FAMILIES["m2m_100"]().eval(), languages()
        model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids("__de__")
        e = attnx.explain(model, tokenizer, "the key", target_text="the book", methods="rollout")
        assert any("read as __fr__, and the model is set to generate __de__" in note for note in e.notes)
        model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids("__fr__")
        e = attnx.explain(model, tokenizer, "the key", target_text="the book", methods="rollout")
        assert not e.notes
        assert e.tokens[-4:] == ("</s>", "__fr__", "the", "book")


def languages():
    """A tokenizer that puts a language in front of each target."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["<s>", "<pad>", "</s>", "<unk>", "__de__", "__fr__", "the", "key", "book"]
    words += [f"word{number}" for number in range(streams_zoo.VOCABULARY - len(words))]
    backend = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="__fr__ $A </s>", special_tokens=[("__fr__", 5), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=backend, additional_special_tokens=["__de__", "__fr__"], **names)


def test_the_row_of_the_table_is_the_generic_one():
    assert adapter_for(streams_zoo.model("t5")).name == "encoder_decoder"
