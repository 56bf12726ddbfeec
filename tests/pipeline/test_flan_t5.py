"""A real model translates, and each word is found to come from the word that it translates."""

import numpy as np
import pytest

import attnx
from tests import flan_t5

SOURCE = "translate English to German: The house is wonderful."


@pytest.mark.slow
def test_words_come_from_what_they_translate():
    model, tokenizer = flan_t5.load()
    g = attnx.explain_generation(
        model, tokenizer, SOURCE, max_new_tokens=12, methods=("rollout", "alti"), references=("lrp", "blankout")
    )
    assert g.generated == ("Das", "Haus", "ist", "wunderbar", ".", "</s>")
    source = g.sequences["source"]
    for written, word in (("Haus", "house"), ("wunderbar", "wonderful")):
        step = g.step(g.generated.index(written))
        for reference in ("lrp", "blankout"):
            best = next(one for one in step.top(9, reference) if one.positions[0] < source)
            assert best.text == word
    taken = np.abs(g["lrp"]).sum(1)
    sinks = [abs(one["lrp"]["sink"]) / whole for one, whole in zip(g.provenance["measured"], taken, strict=True)]
    assert max(sinks) < 0.05
    assert g.step(0).split_by_residual("rollout")
    assert not g.step(0).split_by_residual("alti")


@pytest.mark.slow
def test_most_attention_of_the_output_goes_to_its_start_which_carries_little():
    model, tokenizer = flan_t5.load()
    e = attnx.explain(model, tokenizer, SOURCE, target_text="Das Haus ist", methods="rollout", references="lrp")
    kinds = e.provenance["settings"]["layer_kinds"]
    own = [share for share, kind in zip(e.sink, kinds, strict=True) if kind == "self"]
    assert min(own) > 0.6
    facts = e.attributions["lrp"].diagnostics
    assert abs(facts["sink"]) < 0.05 * np.abs(e["lrp"]).sum()


@pytest.mark.slow
def test_what_it_writes_is_aligned():
    model, tokenizer = flan_t5.load()
    g = attnx.explain_generation(model, tokenizer, SOURCE, max_new_tokens=12)
    assert {("house", "Haus"), ("wonderful.", "wunderbar.")} <= set(attnx.alignment(g).pairs())
