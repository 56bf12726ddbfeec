"""Alignment on the model that rewrites dates, of which every link is known."""

import numpy as np
import pytest
import torch

import attnx
from attnx.demo_models.dates import generate, load_demo
from attnx.errors import AttnxError
from attnx.word_alignment.links import Gold
from tests import zoo

MODEL, TOKENIZER = load_demo()
TEXT, WRITTEN = "not may 9 2011 but the third of march 1998", "1998 03 03"
DATES = generate(20, seed=3)
GOLD = [Gold(links, links) for links in (frozenset((s, t) for t, s in enumerate(one.sources)) for one in DATES)]


@pytest.fixture(scope="module")
def explained():
    return attnx.explain(MODEL, TOKENIZER, TEXT, target_text=WRITTEN, methods=("raw", "rollout"), all_queries=True)


def aligned(**options):
    texts = [one.text for one in DATES], [one.written for one in DATES]
    return attnx.align(MODEL, TOKENIZER, *texts, gold=GOLD, progress=False, **options)


def test_every_field_is_linked_to_the_word_that_decides_it(explained):
    found = attnx.alignment(explained)
    assert found.pairs() == (("1998", "1998"), ("march", "03"), ("third", "03"))
    assert found.to_pharaoh() == "9-0 8-1 6-2\n"
    assert (found.method, found.layer) == ("raw", "cross 1")


def test_scores_are_the_models_own_cross_attention_of_the_position_that_predicts(explained):
    source = TOKENIZER(TEXT, return_tensors="pt")
    ids = torch.tensor([[MODEL.config.decoder_start_token_id, *TOKENIZER(WRITTEN)["input_ids"][:-1]]])
    attention = attnx.capture(MODEL, **source, decoder_input_ids=ids)
    length = source["input_ids"].shape[1]
    for layer in ("cross 1", "cross 2"):
        rows = attnx.raw(attention, layer=layer)[length:, : length - 1].numpy()
        for row, first in (("predicts", 0), ("reads", 1)):
            found = attnx.alignment(explained, layer=layer, row=row)
            np.testing.assert_allclose(found.scores[0], rows[first : first + 3], atol=1e-6)


@pytest.mark.slow
def test_a_single_cross_level_finds_all_and_the_chain_nearly_all():
    assert aligned().error_rate == 0.0
    assert aligned(layer="cross 2", choice="intersection").error_rate == 0.0
    assert aligned(method="rollout", layer="cross 2").error_rate < 0.05


def test_the_position_that_reads_a_field_looks_for_the_next_one_already():
    assert aligned(row="reads").error_rate > 0.5


def test_several_explanations_make_one_alignment(explained):
    assert len(attnx.alignment([explained, explained])) == 2


@pytest.fixture(scope="module")
def generated():
    return attnx.explain_generation(MODEL, TOKENIZER, TEXT, methods=("raw", "rollout"), layer="all")


def test_what_the_model_writes_is_aligned_as_if_it_had_been_given(generated, explained):
    for options in ({}, {"layer": "cross 2"}, {"method": "rollout"}, {"row": "reads"}, {"choice": "intersection"}):
        own, given = attnx.alignment(generated, **options), attnx.alignment(explained, **options)
        assert (own.sentences, own.headline) == (given.sentences, given.headline)
        np.testing.assert_allclose(own.scores[0], given.scores[0], atol=1e-6)


def test_what_was_measured_aligns_a_generation_and_leads_where_it_is_shown_first():
    g = attnx.explain_generation(MODEL, TOKENIZER, TEXT)
    found = attnx.alignment(g)
    assert (found.method, found.layer, found.pairs()[1]) == ("lrp", "", ("march", "03"))
    assert found.headline.startswith("lrp, the source word")
    assert found.scores[0].min() >= 0  # what speaks against a word is not where it is from
    assert attnx.Alignment.from_json(found.to_json()) == found
    with pytest.raises(AttnxError, match="leave layer out"):
        attnx.alignment(g, method="lrp", layer="cross 1")


@pytest.mark.slow
def test_without_targets_the_model_writes_them():
    texts = [one.text for one in DATES]
    found = attnx.align(MODEL, TOKENIZER, texts, progress=False)
    assert [" ".join(one.target) for one in found.sentences] == [one.written for one in DATES]
    assert found.against(GOLD).error_rate == 0.0
    assert aligned(method="lrp").error_rate == 0.0


def test_a_source_of_several_lines_and_a_word_that_is_cut_off():
    g = attnx.explain_generation(MODEL, TOKENIZER, "the third\nof march 1998", max_new_tokens=2, methods="raw")
    found = attnx.alignment(g)
    assert found.sentences[0].source == ("the", "third", "of", "march", "1998")
    assert found.pairs() == (("1998", "1998"), ("march", "03"))
    with pytest.raises(AttnxError, match="did not read the last token"):
        attnx.alignment(g, row="reads")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda e: attnx.alignment([]), "takes an explanation of an encoder–decoder"),
        (lambda e: attnx.alignment(e, row="both"), "predicts"),
        (lambda e: attnx.alignment(e, choice="best"), "argmax"),
        (lambda e: attnx.alignment(e, layer="cross 3"), "cross 1 to cross 2"),
        (lambda e: attnx.alignment(e, method="flow"), "flow"),
        (lambda e: attnx.alignment(attnx.explain(MODEL, TOKENIZER, TEXT)), "all_queries=True"),
        (lambda e: attnx.alignment(attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a key")), "one text"),
        (lambda e: attnx.align(MODEL, TOKENIZER, ["a"], []), "1 sources and 0 targets"),
        (lambda e: attnx.align(MODEL, TOKENIZER, [], []), "nothing to align"),
        (lambda e: attnx.align(MODEL, TOKENIZER, ["march"], gold=GOLD), "give the targets"),
        (lambda e: attnx.align(MODEL, TOKENIZER, [" "]), "pair 1 is empty"),
        (lambda e: attnx.align(MODEL, TOKENIZER, ["march"], [" "]), "pair 1 is empty"),
    ],
)
def test_what_cannot_be_aligned_is_told(explained, call, says):
    with pytest.raises(AttnxError, match=says):
        call(explained)
