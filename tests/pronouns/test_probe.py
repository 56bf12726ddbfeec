"""One sentence: the numbers are those of the attention, and what cannot be asked is refused in one line."""

import json

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.adapters.families import ADAPTERS, last_position
from attnx.adapters.text import prepare_text
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.methods import METHODS, RAW, Method
from attnx.pronouns import Sentence, probe_each, written_out
from attnx.pronouns import probe as decided
from attnx.pronouns.probe import probe
from attnx.pronouns.result import Candidate, Probe
from tests import zoo

TEXT = "The author talked to Sara about [MASK] book"
ASKED = {"candidates": ("author", "Sara"), "pronouns": ("his", "her"), "implies": {"his": "author", "her": "Sara"}}


def ask(text=TEXT, model=None, tokenizer=None, **options):
    chosen = ASKED | options
    if "implies" not in options and {"candidates", "pronouns"} & set(options):
        del chosen["implies"]
    return probe(model or zoo.masked_lm(), tokenizer or zoo.wordpiece_tokenizer(), text, **chosen)


def eager(model, tokenizer, text):
    """(attention, probabilities) of a plain run with output_attentions, apart from anything that attnx does."""
    plain = type(model)._from_config(model.config, attn_implementation="eager").eval()
    plain.load_state_dict(model.state_dict())
    inputs = tokenizer(text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        output = plain(**inputs, output_attentions=True)
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    return torch.cat(output.attentions).double(), output.logits[0, place].softmax(-1), place


def by_hand(attention, place):
    """Raw, rollout and flow of the mask, from the formulas of the paper."""
    mean = attention.mean(1).numpy()
    half = (mean + np.eye(mean.shape[-1])) / 2
    rolled, rows = np.eye(mean.shape[-1]), []
    for layer in half:
        rolled = layer @ rolled
        rows.append(rolled[place])
    flow = attnx.flow(mean[:, None], position=place, solver="networkx")
    return {"raw": mean[:, place], "rollout": np.array(rows), "flow": flow}


def test_relevance_and_probabilities_are_those_of_the_attention_itself():
    found = ask("the author talked to unaffordable Sara about [MASK] book", candidates=("author", "unaffordable Sara"))
    attention, probabilities, place = eager(zoo.masked_lm(), zoo.wordpiece_tokenizer(), found.text)
    tokenizer = zoo.wordpiece_tokenizer()
    assert found.mask == place
    assert [one.positions for one in found.candidates] == [(2,), (5, 6, 7, 8, 9)]
    for method, rows in by_hand(attention, place).items():
        expected = np.stack([rows[:, 2], rows[:, 5:10].sum(1)], axis=1)
        np.testing.assert_allclose(found.relevance[method], expected, atol=1e-6)
    for pronoun in ("his", "her"):
        token = tokenizer.convert_tokens_to_ids(pronoun)
        assert found.probabilities[pronoun] == pytest.approx(probabilities[token].item(), abs=1e-6)
    assert found.relative["his"] == pytest.approx(
        found.probabilities["his"] / sum(found.probabilities.values()), abs=1e-12
    )
    assert sum(found.relative.values()) == pytest.approx(1)


def test_the_mean_over_a_span_is_the_sum_divided_by_its_pieces():
    text, names = "the author talked to unaffordable Sara about [MASK] book", ("author", "unaffordable Sara")
    summed, mean = (ask(text, candidates=names, span=span) for span in ("sum", "mean"))
    for method in summed.methods:
        np.testing.assert_allclose(summed.relevance[method] / [1, 5], mean.relevance[method])


@pytest.mark.parametrize("written", ["[MASK]", "<mask>", "mask", "Mask"])
def test_the_mask_may_be_written_in_several_ways(written):
    found, expected = ask(TEXT.replace("[MASK]", written)), ask()
    assert found.text == TEXT
    np.testing.assert_array_equal(found.relevance["flow"], expected.relevance["flow"])


def test_the_word_mask_is_a_word_where_there_is_a_mask():
    assert ask("The author of the mask talked to Sara about [MASK] book").text.count("mask") == 1


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta"])
def test_every_family_gives_the_numbers_of_its_own_attention(family):
    model, tokenizer = FAMILIES[family]()
    found = ask(TEXT, model, tokenizer, candidates=("author", "Sara"), pronouns=("his", "her"))
    assert found.text == TEXT.replace("[MASK]", tokenizer.mask_token)
    attention, probabilities, place = eager(model, tokenizer, found.text)
    rows = by_hand(attention, place)
    for method in found.methods:
        expected = np.stack([rows[method][:, list(one.positions)].sum(1) for one in found.candidates], axis=1)
        np.testing.assert_allclose(found.relevance[method], expected, atol=1e-6)
    space = "Ġ" if family == "roberta" else ""
    for pronoun, probability in found.probabilities.items():
        token = tokenizer.convert_tokens_to_ids(space + pronoun)
        assert probability == pytest.approx(probabilities[token].item(), abs=1e-6)


def distilbert():
    torch.manual_seed(0)
    size = len(zoo.wordpiece_tokenizer())
    config = hf.DistilBertConfig(vocab_size=size, dim=32, n_layers=3, n_heads=4, hidden_dim=48)
    return hf.DistilBertForMaskedLM(config).eval(), zoo.wordpiece_tokenizer()


FAMILIES = {
    "bert": lambda: (zoo.masked_lm(), zoo.wordpiece_tokenizer()),
    "distilbert": distilbert,
    "roberta": lambda: (zoo.roberta_masked_lm(), zoo.roberta_tokenizer()),
}


def test_at_the_beginning_of_a_text_roberta_has_other_tokens():
    tokenizer = zoo.roberta_tokenizer()
    found = ask("<mask> author talked to Sara", zoo.roberta_masked_lm(), tokenizer, pronouns=("his", "her"))
    _, probabilities, _ = eager(zoo.roberta_masked_lm(), tokenizer, found.text)
    inside, first = (tokenizer.convert_tokens_to_ids(one) for one in ("Ġhis", "his"))
    assert inside != first
    assert found.probabilities["his"] == pytest.approx(probabilities[first].item(), abs=1e-6)


def test_a_mask_that_does_not_take_the_space_before_it_never_stands_behind_a_lone_space():
    plain = zoo.roberta_tokenizer(lstrip=False)
    found = ask(TEXT, zoo.roberta_masked_lm(), plain)
    expected = ask(TEXT, zoo.roberta_masked_lm(), zoo.roberta_tokenizer())
    assert plain.convert_ids_to_tokens(plain(found.text)["input_ids"])[found.mask - 1] == "Ġabout"
    assert found.probabilities == pytest.approx(expected.probabilities)


def test_a_candidate_that_occurs_twice_is_told_apart_by_index():
    text = "the author talked to the author about [MASK] book"
    found = ask(text, candidates=("author[0]", "author[1]"))
    assert [one.positions for one in found.candidates] == [(2,), (6,)]
    swapped = ask(text, candidates=("author[1]", "author[0]"))
    np.testing.assert_array_equal(found.relevance["raw"], swapped.relevance["raw"][:, ::-1])


def test_several_sentences_at_once_are_the_same_as_one_by_one():
    sentences = [
        Sentence(TEXT, ("author", "Sara"), ("his", "her")),
        Sentence("Sara said [MASK] was witty and the author was dull", ("Sara", "author"), ("she", "he")),
        Sentence("the author said [MASK] book was bad, Sara", ("author", "Sara"), ("her", "his")),
    ]
    together = probe_each(zoo.masked_lm(), zoo.wordpiece_tokenizer(), sentences)
    for sentence, found in zip(sentences, together, strict=True):
        alone = ask(sentence.text, candidates=sentence.candidates, pronouns=sentence.pronouns)
        assert list(found.probabilities) == list(sentence.pronouns)
        assert found.probabilities == pytest.approx(alone.probabilities, rel=1e-4)
        for method in found.methods:
            np.testing.assert_allclose(found.relevance[method], alone.relevance[method], atol=1e-5)


def test_any_registered_method_can_be_asked_for():
    METHODS.add("twice", Method("twice", lambda graph, asked: 2 * RAW.relevance(graph, asked), residual=0.0))
    try:
        found = ask(methods=("raw", "twice"))
        np.testing.assert_allclose(found.relevance["twice"], 2 * found.relevance["raw"])
    finally:
        METHODS.remove("twice")


def test_an_adapter_that_explains_another_position_is_asked_for_the_mask(monkeypatch):
    class Config(hf.BertConfig):
        model_type = "answers_last"

    model = hf.BertForMaskedLM(Config(**{**zoo.masked_lm().config.to_dict(), "model_type": "answers_last"})).eval()
    model.load_state_dict(zoo.masked_lm().state_dict())
    attnx.register_adapter(attnx.Adapter(name="answers_last", prepare=prepare_text, explained=last_position))
    try:
        found, expected = ask(model=model), ask()
    finally:
        ADAPTERS.remove("answers_last")
    np.testing.assert_allclose(found.relevance["rollout"], expected.relevance["rollout"], atol=1e-6)
    assert found.probabilities == pytest.approx(expected.probabilities, rel=1e-4)


def test_the_model_is_left_as_it_was():
    model, tokenizer = zoo.masked_lm(), zoo.wordpiece_tokenizer()
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        before = model(**inputs).logits
        ask()
        assert torch.equal(model(**inputs).logits, before)


def made(relevance, *, probabilities=None, implies=None):
    """A probe with numbers of our own: author and Sara, layers in rows."""
    return Probe(
        text=TEXT,
        mask=7,
        candidates=(Candidate("author", (2,)), Candidate("Sara", (5,))),
        probabilities=probabilities or {"his": 0.1, "her": 0.3},
        layers=tuple(range(1, len(relevance) + 1)),
        relevance={"flow": np.array(relevance, dtype=float)},
        implies=ASKED["implies"] if implies is None else implies,
    )


def test_a_verdict_is_whether_the_most_relevant_candidate_is_the_implied_one_and_ties_decide_nothing():
    found = made([[0.2, 0.3], [0.3, 0.2], [1.0, 1.0], [1.0, 1.0 - 1e-10], [1.0, 1.0 - 1e-8]])
    assert found.predicted == "her"
    assert found.implied == "Sara"
    assert found.top_candidates("flow") == ("Sara", "author", None, None, "author")
    assert found.verdicts("flow") == ("consistent", "inconsistent", "undecided", "undecided", "inconsistent")


@pytest.mark.parametrize(
    ("probabilities", "implies"),
    [({"his": 0.1, "her": 0.3}, {}), ({"his": 0.1, "her": 0.3}, {"his": "author"}), ({"his": 0.2, "her": 0.2}, None)],
)
def test_without_an_implied_candidate_there_is_no_verdict(probabilities, implies):
    assert made([[0.2, 0.3]], probabilities=probabilities, implies=implies).verdicts("flow") == ("not applicable",)


def test_the_nearest_candidate_is_counted_in_positions():
    assert made([[0, 1]]).nearest == "Sara"
    assert ask("author [MASK] Sara said", candidates=("author", "Sara")).nearest is None


def test_a_probe_survives_json():
    found = ask()
    again = Probe.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    assert again.verdicts("rollout") == found.verdicts("rollout")


def test_it_prints_what_it_found():
    text = str(made([[0.2, 0.3], [0.3, 0.3]]))
    assert "p(her) = 0.300, 75.0% of the pronouns, refers to Sara" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["flow", "1", "0.200", "0.300", "Sara", "consistent"] in lines
    assert ["2", "0.300", "0.300", "undecided", "undecided"] in lines


def test_a_method_that_was_not_asked_for_is_named():
    with pytest.raises(ChoiceError, match="there are: flow"):
        made([[0.2, 0.3]]).top_candidates("rolout")


MISTAKES = {
    "no mask": ({"text": "The author talked to Sara"}, r"has no mask; write \[MASK\] where"),
    "two masks": ({"text": "[MASK] author talked to Sara about [MASK] book"}, "has 2 masks; leave one"),
    "two words": ({"text": "mask author talked to Sara about mask book"}, "has 2 masks"),
    "two kinds": ({"text": "<mask> author talked to Sara about [MASK] book"}, "has 2 masks"),
    "no text": ({"text": 5}, "needs one sentence, found int"),
    "candidate": ({"candidates": ("author", "sara")}, "'sara' is not in the sentence; write it .* The, author, talked"),
    "part of a word": ({"candidates": ("auth", "Sara")}, "'auth' is not in the sentence"),
    "the mask": ({"candidates": ("MASK", "Sara")}, "'MASK' is not in the sentence"),
    "overlap": ({"candidates": ("author", "The author")}, "share a token"),
    "which of two": (
        {"text": "the author talked to Sara, the author, about [MASK] book"},
        r"'author' occurs 2 times in the sentence; say which by index: 'author\[0\]'",
    ),
    "index": ({"candidates": ("author[1]", "Sara")}, r"'author\[1\]' asked, but 'author' occurs 1 times"),
    "one candidate": ({"candidates": ("Sara",)}, "needs two, found 1"),
    "a text of candidates": ({"candidates": "Sara"}, "candidates must be a list, found the text 'Sara'"),
    "twice": ({"candidates": ("Sara", "Sara")}, "is given twice"),
    "empty": ({"candidates": ("Sara", " ")}, "is no candidate"),
    "pieces": ({"pronouns": ("his", "unaffordable")}, "4 tokens here .un ##aff ##ord ##able., and a mask holds one"),
    "unknown": ({"pronouns": ("his", "zir")}, r"'zir' is not in the vocabulary .it is read as \[UNK\]"),
    "same token": ({"pronouns": ("his", "His")}, "are the same token here"),
    "one pronoun": ({"pronouns": ("his",)}, "needs two, found 1"),
    "implies nobody": ({"implies": {"his": "Peter"}}, "candidate 'Peter' is not known; there are: author, Sara"),
    "implied by nobody": ({"implies": {"he": "author"}}, "pronoun 'he' is not known; there are: his, her"),
    "written": ({"written": "its"}, "pronoun .its. is not known; there are: his, her"),
    "method": ({"methods": "rolout"}, "did you mean 'rollout'"),
    "span": ({"span": "max"}, "span 'max' is not known; there are: sum, mean"),
    "too long": ({"text": TEXT + " hello" * 70}, "the model takes 64"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(mistake):
    options, message = MISTAKES[mistake]
    with pytest.raises(AttnxError, match=message) as raised:
        ask(**options)
    assert "\n" not in str(raised.value)


def test_a_model_without_a_masked_lm_head_is_refused():
    with pytest.raises(InputError, match=r"BertForSequenceClassification has no masked-LM head.* AutoModelForMaskedLM"):
        ask(model=zoo.classifier())


def test_a_tokenizer_without_a_mask_is_refused():
    with pytest.raises(InputError, match="has no mask token"):
        ask(model=zoo.roberta_masked_lm(), tokenizer=zoo.bytelevel_tokenizer())


def test_a_written_pronoun_is_followed_from_its_own_position_and_the_prediction_stays_that_of_the_mask():
    found = ask(written="her")
    assert found.text == TEXT.replace("[MASK]", "her")
    assert found.probabilities == pytest.approx(ask().probabilities, rel=1e-4)
    explanation = attnx.explain(zoo.masked_lm(), zoo.wordpiece_tokenizer(), found.text, position=7)
    for method in found.methods:
        np.testing.assert_allclose(found.relevance[method], explanation[method][:, [2, 5]], atol=1e-6)


def test_every_pronoun_is_written_out_and_says_who_is_meant():
    first, second = written_out([Sentence(TEXT, **ASKED)])
    assert [(one.written, one.answer) for one in (first, second)] == [("his", "author"), ("her", "Sara")]
    assert [one.answer for one in written_out([Sentence(TEXT, **ASKED, answer="author")])] == ["author", "author"]
    his, her = probe_each(zoo.masked_lm(), zoo.wordpiece_tokenizer(), [first, second])
    assert (his.text, her.text) == (TEXT.replace("[MASK]", "his"), TEXT.replace("[MASK]", "her"))
    np.testing.assert_allclose(her.relevance["flow"], ask(written="her").relevance["flow"], atol=1e-5)
    assert not np.allclose(his.relevance["raw"], her.relevance["raw"], atol=1e-3)


def test_the_value_path_is_that_of_the_likelier_pronoun_against_the_other():
    found = ask("the author talked to unaffordable Sara about [MASK] book", candidates=("author", "unaffordable Sara"))
    model, tokenizer = zoo.masked_lm(), zoo.wordpiece_tokenizer()
    likelier, other = sorted(found.probabilities, key=lambda one: -found.probabilities[one])
    whole = attnx.explain(model, tokenizer, found.text, target=(likelier, other), references="lrp")
    scores = whole["lrp"]
    np.testing.assert_allclose(found.references["lrp"], [scores[2], scores[5:10].sum()], atol=1e-6)
    most = "author" if scores[2] > scores[5:10].sum() else "unaffordable Sara"
    assert found.top_candidates("lrp") == (most,)


def test_a_written_pronoun_has_no_prediction_that_something_could_decide():
    assert ask(written="her").references == {}


def test_only_the_sentence_to_blame_is_without_references(monkeypatch):
    measure, bad = decided.measure_references, TEXT.replace("book", "book was bad")

    def fail_on_one(model, tokenizer, cases, asked):
        if any(case.prepared.text == bad for case in cases):
            raise RuntimeError("no kernel")
        return measure(model, tokenizer, cases, asked)

    monkeypatch.setattr(decided, "measure_references", fail_on_one)
    sentences = [Sentence(text, ("author", "Sara"), ("his", "her")) for text in (TEXT, bad)]
    good, blamed = probe_each(zoo.masked_lm(), zoo.wordpiece_tokenizer(), sentences)
    assert set(good.references) == {"lrp"}
    assert not any("left out" in note for note in good.notes)
    assert blamed.references == {}
    assert blamed.notes[-1] == "lrp was left out: RuntimeError: no kernel"


def test_references_that_nobody_asked_for_are_left_out_with_a_note_where_they_fail(monkeypatch):
    def fail(*_, **__):
        raise InputError("cannot be measured")

    monkeypatch.setattr("attnx.pronouns.probe.measure_references", fail)
    found = ask()
    assert found.references == {}
    assert found.notes[-1] == "lrp was left out: cannot be measured"
    with pytest.raises(InputError, match="cannot be measured"):
        ask(references="lrp")


def test_what_decided_is_saved_and_shown():
    found = ask(references=("lrp", "gradient"))
    again = Probe.from_json(found.to_json())
    assert again == found
    assert list(again.references) == ["lrp", "gradient"]
    assert "lrp" in found.to_text()
    assert len(found.to_frame().query("method == 'gradient'")) == 2
