"""Parts of a text that the caller names: where they stand, and what is refused."""

import numpy as np
import pytest

import attnx
from attnx.adapters import adapter_for, with_spans
from attnx.benchmarks.suites import documents
from attnx.demo_models.recall import generate, load_demo
from attnx.errors import ChoiceError, InputError
from tests import zoo

TEXT = 'the key. "the film!"\nthe table is dull'
MODEL, TOKENIZER = zoo.causal_lm(), zoo.bytelevel_tokenizer()
RECALL = load_demo()


def texts(asked, text=TEXT):
    prepared = with_spans(adapter_for(MODEL).prepare(MODEL, TOKENIZER, text), asked)
    places = [[prepared.positions[place] for place in one.positions] for one in prepared.spans]
    return {
        one.name: text[several[0].start : several[-1].end].strip()
        for one, several in zip(prepared.spans, places, strict=True)
    }


def test_parts_are_named_by_offsets_or_by_themselves():
    assert texts({"a": (0, 8), "b": (9, 20)}) == {"a": "the key.", "b": '"the film!"'}
    assert texts({"a": "the key.", "b": "the table"}) == {"a": "the key.", "b": "the table"}
    assert texts(["the", "the"]) == {"1. the": "the", "2. the": "the"}


def test_sentences_and_lines_are_ready_made():
    assert list(texts("sentences").values()) == ["the key.", '"the film!"', "the table is dull"]
    assert list(texts("lines").values()) == ['the key. "the film!"', "the table is dull"]
    assert list(texts("sentences", "one key. two films? three")) == ["1. one key.", "2. two films?", "3. three"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"a": (5, 99)}, "the text has 38 characters"),
        ({"a": (0, 8), "b": (4, 12)}, "'a' and 'b' overlap"),
        (["no such part"], "does not stand in the text"),
        ("paragraphs", "spans 'paragraphs' is not known"),
        ({}, "there is no span"),
        ({"a": 3}, "first character, one past the last"),
        (7, "spans are a dictionary"),
    ],
)
def test_what_is_no_part_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        texts(asked)


def test_a_part_without_a_token_is_refused():
    with pytest.raises(InputError, match="span 'a' has no token in it"):
        attnx.explain(*RECALL, "k3 v7 k3", spans={"a": (1, 2)}, methods="raw")


def test_relevance_is_summed_and_blankout_takes_a_part_away_at_once():
    one = attnx.explain(
        MODEL, TOKENIZER, TEXT, spans="sentences", methods="rollout", references={"blankout": {"unit": "span"}}
    )
    sums = [one["rollout"][-1][list(span.positions)].sum() for span in one.spans]
    assert [each.score for each in one.by_span("rollout")] == pytest.approx(sums)
    whole = one.attributions["blankout"].diagnostics["before"]
    prepared = adapter_for(MODEL).prepare(MODEL, TOKENIZER, TEXT)
    from attnx.attribution import Case, Perturbation, choose_baseline, measure
    from attnx.targets import Target

    case = Case(prepared, Target(one.prediction.index, one.position))
    baseline = choose_baseline(MODEL, adapter_for(MODEL), TOKENIZER, prepared)
    gone = [Perturbation(0, span.positions) for span in one.spans]
    after = measure(MODEL, TOKENIZER, [case], gone, kind="margin", baseline=baseline)
    assert [each.score for each in one.by_span("blankout")] == pytest.approx(whole - after, abs=1e-6)
    assert attnx.Explanation.from_json(one.to_json()) == one


def test_without_spans_none_are_blanked_or_summed():
    with pytest.raises(ChoiceError, match="no spans were given"):
        attnx.explain(MODEL, TOKENIZER, TEXT, references={"blankout": {"unit": "span"}})
    with pytest.raises(InputError, match="no spans were named"):
        attnx.explain(MODEL, TOKENIZER, TEXT, methods="raw").by_span()
    with pytest.raises(InputError, match="one for each"):
        attnx.explain(MODEL, TOKENIZER, [TEXT, TEXT], spans={"a": (0, 3)}, methods="raw")


def test_the_document_that_mattered_is_found():
    right = 0
    asked = generate(20, seed=5, pairs=8)
    for one in asked:
        parts = documents(one.text)
        e = attnx.explain(*RECALL, one.text, spans=parts, target=one.answer)
        best = int(np.argmax([each.score for each in e.by_span()]))
        right += best == one.source // 4
    assert right >= 18  # chance is 5


def test_a_written_token_tells_which_document_it_is_from():
    (one,) = generate(1, seed=3, pairs=8)
    g = attnx.explain_generation(*RECALL, one.text, spans=documents(one.text), max_new_tokens=1)
    sums = g.by_span()
    assert g.generated[0].strip() == one.answer
    assert max(sums, key=lambda name: sums[name][0]).startswith(f"{one.source // 4 + 1}.")
    assert attnx.GenerationExplanation.from_json(g.to_json()) == g


def test_faithfulness_takes_whole_parts_away():
    (one,) = generate(1, seed=3, pairs=8)
    found = attnx.faithfulness(
        *RECALL, [one.text], spans=[documents(one.text)], methods="rollout", references="lrp", shares=(0.25,),
        random=4, steps=4, target=one.answer, progress=False,
    )  # fmt: skip
    # Of four documents the first by value path is the one that holds the answer: without it, the answer is gone.
    assert found.values["lrp"][0, 0] > 0.9
