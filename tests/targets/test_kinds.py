"""Every kind of head on three families, each against a direct computation on the model itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import AttnxError, CaptureError, ChoiceError, InputError
from attnx.targets.span import span_number, span_of
from tests import zoo
from tests.targets import heads
from tests.targets.heads import CASES, HEADS

TOKENIZER = zoo.wordpiece_tokenizer()


def explained(head, family, **options):
    given = {"methods": "rollout", **dict(HEADS[head].options), **options}
    return attnx.explain(heads.model(head, family), TOKENIZER, HEADS[head].given, **given)


def direct_target(head, prediction):
    """What the row calls the target, as the model's output calls it; a choice is the only one of its run."""
    return {"span": prediction.span, "choice": 0}.get(head, prediction.index)


def direct(head, family, e, **changed):
    """The target's logit by the model's own forward; `changed` replaces inputs."""
    choice = e.prediction.index if head == "choice" else None
    inputs = {**heads.encoded(head, family, choice), **changed}
    if "inputs_embeds" in changed:
        del inputs["input_ids"]
        if head == "choice":
            inputs["inputs_embeds"] = inputs["inputs_embeds"][:, None]
    output = heads.model(head, family)(**inputs)
    return HEADS[head].logit(output, direct_target(head, e.prediction))


@pytest.mark.parametrize(("head", "family"), CASES)
def test_the_prediction_is_the_best_of_the_models_own_output(head, family):
    e = explained(head, family, references=())
    with torch.no_grad():
        output = heads.model(head, family)(**heads.encoded(head, family))
    kind = e.prediction.kind
    assert kind == head
    if kind == "span":
        first = next(one.index for one in e.positions if one.segment == 1)
        start, end = (part[0, first:-1].softmax(0) for part in (output.start_logits, output.end_logits))
        shares = torch.outer(start, end).triu().tril(14)  # as transformers' pipeline decodes: at most 15 tokens
        best = divmod(int(shares.argmax()), len(start))
        assert e.prediction.span == (first + best[0], first + best[1])
        assert e.prediction.probability == pytest.approx(float(shares.max()), abs=1e-6)
        assert e.prediction.label in heads.PAIR[1]
        return
    logits = output.logits[0, 2] if kind == "tag" else output.logits[0]
    assert e.prediction.index == int(logits.argmax())
    np.testing.assert_allclose(e.prediction.logits, logits.detach(), atol=1e-5)
    shares = {"value": None, "label": logits.sigmoid()}.get(kind, logits.softmax(-1))
    wanted = None if shares is None else float(shares[e.prediction.index])
    assert e.prediction.probability == (None if wanted is None else pytest.approx(wanted, abs=1e-6))


@pytest.mark.parametrize(("head", "family"), CASES)
def test_gradients_are_those_of_the_targets_logit_by_hand(head, family):
    e = explained(head, family, references={"gradient": {"score": "logit"}})
    choice = e.prediction.index if head == "choice" else None
    ids = heads.encoded(head, family, choice)["input_ids"].reshape(1, -1)
    values = heads.model(head, family).get_input_embeddings()(ids).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(direct(head, family, e, inputs_embeds=values), values)
    np.testing.assert_allclose(e["gradient"], slopes[0].norm(dim=-1).numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("head", "family"), CASES)
def test_blank_out_is_the_fall_of_the_targets_logit_by_direct_runs(head, family):
    e = explained(head, family, references={"blankout": {"score": "logit"}})
    choice = e.prediction.index if head == "choice" else None
    ids = heads.encoded(head, family, choice)["input_ids"]
    with torch.no_grad():
        before = float(direct(head, family, e))
        for place in e.content:
            blanked = ids.clone()
            blanked[..., place] = TOKENIZER.mask_token_id
            fall = before - float(direct(head, family, e, input_ids=blanked))
            assert e["blankout"][place] == pytest.approx(fall, abs=1e-5)


@pytest.mark.parametrize(("head", "family"), CASES)
def test_value_path_adds_up_to_the_targets_score(head, family):
    e = explained(head, family, references={"lrp": {"score": "logit"}})
    facts = e.attributions["lrp"].diagnostics
    with torch.no_grad():
        assert facts["value"] == pytest.approx(float(direct(head, family, e)), abs=1e-6)
    assert e["lrp"].sum() + facts["biases"] == pytest.approx(facts["value"], abs=1e-9)


@pytest.mark.parametrize(
    ("head", "family"), [("span", "bert"), ("choice", "albert"), ("tag", "distilbert"), ("label", "bert")]
)
def test_methods_about_the_answer_know_the_target(head, family):
    targets = {"span": ("Sara", "the author"), "tag": (0, 4), "label": (0, 2), "choice": (1, (1, 2))}[head]
    one, other = (explained(head, family, methods="gradient_rollout", target=target) for target in targets)
    if head == "choice":  # what its words do to its own number is all that they do
        np.testing.assert_allclose(one["gradient_rollout"], other["gradient_rollout"])
        return
    assert not np.allclose(one["gradient_rollout"], other["gradient_rollout"])


@pytest.mark.parametrize(("head", "family"), CASES)
def test_a_contrast_is_the_difference_of_two_targets(head, family):
    if head == "value":
        pytest.skip("a regression of one value has nothing to set against another")
    pair = {"span": ("Sara", "dull book")}.get(head, (0, 1))
    how = {"references": {"blankout": {"score": "logit"}}}
    both = explained(head, family, target=pair, **how)
    first, second = (explained(head, family, target=one, **how) for one in pair)
    # Words of a choice do nothing to another choice, whose number stands fixed.
    other = 0 if head == "choice" else second["blankout"]
    np.testing.assert_allclose(both["blankout"], first["blankout"] - other, atol=1e-5)
    assert both.prediction.against == second.prediction.label


@pytest.mark.parametrize("kind", ["margin", "probability", "log_odds"])
@pytest.mark.parametrize("head", ["span", "choice"])
@pytest.mark.parametrize("pair", [False, True])
def test_each_number_of_a_span_and_of_a_choice_is_its_definition(head, kind, pair):
    target = {"span": ("Sara", "dull book"), "choice": (2, 0)}[head]
    e = explained(head, "bert", target=target if pair else target[0], references={"blankout": {"score": kind}})
    with torch.no_grad():
        output = heads.model(head, "bert")(**heads.encoded(head, "bert"))
    if head == "choice":
        logits, wanted, rival = output.logits[0], 2, 0
        alone = float(logits[2] - logits[[0, 1]].mean())
    else:
        first = next(one.index for one in e.positions if one.segment == 1)
        ends = [part[0, first:-1] for part in (output.start_logits, output.end_logits)]
        spans = [e.prediction.span, span_of(e.prediction.against_index) if pair else (first, first)]
        logits = (ends[0][:, None] + ends[1]).flatten()
        wanted, rival = ((one - first) * len(ends[0]) + last - first for one, last in spans)
        alone = sum(
            float(end[place - first] - (end.sum() - end[place - first]) / (len(end) - 1))
            for end, place in zip(ends, spans[0], strict=True)
        )
    shares = logits.softmax(0)
    odds = shares.log() - (1 - shares).log()
    numbers = {"probability": shares, "log_odds": odds, "margin": logits}[kind]
    expected = (
        float(numbers[wanted] - numbers[rival]) if pair else alone if kind == "margin" else float(numbers[wanted])
    )
    assert e.attributions["blankout"].diagnostics["before"] == pytest.approx(expected, abs=1e-5)


def test_spans_are_counted_through_a_triangle_whatever_the_length():
    every = [(start, end) for end in range(40) for start in range(end + 1)]
    assert [span_number(*span) for span in every] == list(range(len(every)))
    assert [span_of(number) for number in range(len(every))] == every
    assert span_of(span_number(99_999, 1_000_000)) == (99_999, 1_000_000)


def test_an_answer_in_the_text_is_explained_where_it_starts():
    e = explained("span", "bert", references=())
    assert e.position == e.prediction.span[0]
    assert explained("span", "bert", references=(), position=0).position == 0
    longer = explained("span", "bert", references=(), target="Sara about a dull book")
    assert longer.prediction.label == "Sara about a dull book"
    assert longer.tokens[longer.prediction.span[0]] == "sara"
    assert any("where it starts and where it ends" in note for note in longer.notes)
    by_place = explained("span", "bert", references=(), target=slice(*longer.prediction.span))
    assert by_place.prediction.label == "Sara about a dull"


def test_a_span_that_is_none_teaches_what_is():
    for target, said in [
        ("movie", "does not stand in the context"),
        (slice(0, 2), "no span of the context, which has positions 6 to 14"),
        (-1, "no span of the context"),
        (1.5, "whole number"),
    ]:
        with pytest.raises(ChoiceError, match=said):
            explained("span", "bert", target=target)


def test_deleted_words_move_a_span_along():
    e = explained("span", "bert", target="dull", references={"blankout": {"score": "logit", "baseline": "delete"}})
    ids = heads.encoded("span", "bert")["input_ids"]
    gone = e.prediction.span[0] - 2
    kept = [place for place in range(ids.shape[1]) if place != gone]
    inputs = {name: one[:, kept] for name, one in heads.encoded("span", "bert").items()}
    with torch.no_grad():
        before = float(direct("span", "bert", e))
        output = heads.model("span", "bert")(**inputs)
    after = float(output.start_logits[0, e.prediction.span[0] - 1] + output.end_logits[0, e.prediction.span[1] - 1])
    assert e["blankout"][gone] == pytest.approx(before - after, abs=1e-5)


def test_a_choice_is_asked_for_by_its_text_and_its_words_are_explained():
    e = explained("choice", "bert", target="she talked", references=())
    assert (e.prediction.index, e.text) == (2, (heads.QUESTION[0], "she talked"))
    assert e.prediction.labels == tuple(heads.QUESTION[1])
    tokenised = TOKENIZER([heads.QUESTION[0]] * 3, heads.QUESTION[1], return_tensors="pt", padding=True)
    again = attnx.explain(heads.model("choice", "bert"), TOKENIZER, tokenised, methods="rollout", target=2)
    np.testing.assert_allclose(again["rollout"], e["rollout"], atol=1e-12)
    np.testing.assert_allclose(again.prediction.logits, e.prediction.logits, atol=1e-6)


def test_several_questions_are_several_explanations():
    several = attnx.explain(heads.model("choice", "bert"), TOKENIZER, [heads.QUESTION] * 2, target=[0, 1])
    assert [one.prediction.index for one in several] == [0, 1]


def test_what_is_no_question_with_choices_is_refused():
    for given, said in [
        ("the key", r"give \(text, \[choice, choice, …\]\)"),
        (("the key", "a table"), r"\(text, \[choice, choice, …\]\)"),
        (("the key", ["a table"]), "1 choices are nothing to choose from"),
    ]:
        with pytest.raises(InputError, match=said):
            attnx.explain(heads.model("choice", "bert"), TOKENIZER, given)


def test_choices_that_the_model_cannot_read_are_refused_in_its_words():
    sizes = {"vocab_size": len(TOKENIZER), "type_vocab_size": 1, "max_position_embeddings": 64, "pad_token_id": 0}
    model = hf.RobertaForMultipleChoice(hf.RobertaConfig(**sizes, **zoo.WIDTH)).eval()
    with pytest.raises(CaptureError, match=r"refused the input \(IndexError: index out of range"):
        attnx.explain(model, TOKENIZER, ("the key", ["is bad", "was witty"]))


def test_each_entity_has_an_explanation_of_its_first_token():
    model = heads.model("tag", "bert")
    names = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
    before = model.config.id2label
    model.config.id2label = names
    try:
        found = attnx.explain(model, TOKENIZER, heads.TEXT, methods="rollout", position="entities", references=())
        with torch.no_grad():
            tags = [names[int(one)] for one in model(**TOKENIZER(heads.TEXT, return_tensors="pt")).logits[0].argmax(-1)]
    finally:
        model.config.id2label = before
    starts, last = [], "O"
    for word in found[0].words:
        tag = tags[word.positions[0]]
        if tag != "O" and (tag[0] == "B" or tag[2:] != last[2:]):
            starts.append(word.positions[0])
        last = tag
    assert [one.position for one in found] == starts
    assert [one.prediction.label for one in found] == [tags[place] for place in starts]


def test_a_text_without_entities_and_a_model_that_finds_none_are_told():
    with pytest.raises(ChoiceError, match="is for token classifiers, BertForSequenceClassification is none"):
        attnx.explain(zoo.classifier(), TOKENIZER, heads.TEXT, position="entities")
    with pytest.raises(ChoiceError, match='position="entities" for each entity'):
        attnx.explain(heads.model("tag", "bert"), TOKENIZER, heads.TEXT)


def test_a_regression_says_its_unit_and_has_no_probability():
    e = explained("value", "bert", references=())
    assert e.prediction.label.startswith("stars = ")
    assert any("in the unit of 'stars'" in note for note in e.notes)
    with pytest.raises(AttnxError, match="predicts a value, which has no probability; use its logit"):
        explained("value", "bert", references={"blankout": {"score": "probability"}})


def test_next_sentence_wants_a_pair():
    assert explained("next sentence", "bert", references=()).prediction.labels == ("follows", "does not follow")
    with pytest.raises(InputError, match="give both as a pair"):
        attnx.explain(heads.model("next sentence", "bert"), TOKENIZER, heads.TEXT)


@pytest.mark.parametrize("head", ["span", "choice", "tag", "label", "next sentence"])
def test_faithfulness_is_measured_for_every_kind_that_has_a_probability(head):
    table = attnx.faithfulness(
        heads.model(head, "bert"),
        TOKENIZER,
        [HEADS[head].given] * 2,
        methods="rollout",
        references="lrp",
        random=2,
        progress=False,
        **dict(HEADS[head].options),
    )
    assert table.score == "probability"
    assert all(np.isfinite(one).all() for one in table.values.values())


@pytest.mark.parametrize("head", HEADS)
def test_an_explanation_of_every_kind_is_saved_and_shown(head, tmp_path):
    e = explained(head, HEADS[head].families[0])
    e.save(tmp_path / "e.safetensors")
    assert attnx.Explanation.load(tmp_path / "e.safetensors") == e
    assert e.prediction.label in str(e)
    assert "<html" in e.to_html()


def test_an_edited_context_is_explained_for_the_same_words():
    e = explained("span", "bert", target="dull book")
    both = attnx.counterfactual(heads.model("span", "bert"), TOKENIZER, e, {"Sara": "the author"})
    assert both.explanations[1].prediction.label == "dull book"
    assert both.explanations[1].position == e.position + 1
