"""Tables 1 and 2, cell by cell, from the definitions."""

import numpy as np
import pytest
from scipy import stats

import attnx
from attnx.attribution import PAPER, blankout, cases, gradient
from attnx.demo_models import Beginning
from attnx.paper import table1, table2
from attnx.paper.sentences import prepare
from attnx.paper.tables import CORRECTED, PUBLISHED
from tests import verb_number_zoo as zoo


@pytest.fixture(scope="module")
def tables(few):
    return {measure: measure(zoo.model(), zoo.tokenizer(), few) for measure in (table1, table2)}


def explained(few, method):
    """Sentence by sentence through the front door."""
    return [attnx.explain(zoo.model(), zoo.tokenizer(), one.text, methods=method)[method] for one in few.beginnings]


def by_hand_corrected(few, method, references):
    values = []
    for rows, reference in zip(explained(few, method), references, strict=True):
        rows = rows.round(9) if method == "flow" else rows
        values.append([stats.spearmanr(row[1:-1], reference[1:-1])[0] for row in rows])
    return np.array(values)


def by_hand_published(few, method, references):
    values = []
    for rows, reference in zip(explained(few, method), references, strict=True):
        rows = rows.round(9) if method == "flow" else rows
        count, wanted = len(reference), stats.rankdata(reference, "dense")
        gaps = [((stats.rankdata(row, "dense") - wanted) ** 2).sum() for row in rows]
        values.append([1 - 6 * gap / (count * (count**2 - 1)) for gap in gaps])
    return np.array(values)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_corrected_table1_is_spearman_of_words_with_blankout(tables, few, method):
    asked = cases(zoo.model(), zoo.tokenizer(), few.prepared)
    references = [one.scores for one in blankout(zoo.model(), zoo.tokenizer(), asked, **PAPER)]
    expected = by_hand_corrected(few, method, references)
    cells = tables[table1].by_layer(method, CORRECTED)
    assert [cell.mean for cell in cells] == pytest.approx(np.nanmean(expected, 0).tolist(), abs=1e-6)
    assert [cell.deviation for cell in cells] == pytest.approx(np.nanstd(expected, 0).tolist(), abs=1e-6)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_published_table1_ranks_all_positions_with_eos_at_zero(tables, few, method):
    but_last = [range(len(one.positions) - 1) for one in few.prepared]
    asked = cases(zoo.model(), zoo.tokenizer(), few.prepared)
    references = [one.scores for one in blankout(zoo.model(), zoo.tokenizer(), asked, positions=but_last, **PAPER)]
    assert all(reference[-1] == 0 < reference[0] for reference in references)
    expected = by_hand_published(few, method, references)
    cells = tables[table1].by_layer(method, PUBLISHED)
    assert [cell.mean for cell in cells] == pytest.approx(expected.mean(0).tolist(), abs=1e-6)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_table2_takes_the_gradient_that_each_protocol_names(tables, few, method):
    model, tokenizer = zoo.model(), zoo.tokenizer()
    contrasted, predicted = (cases(model, tokenizer, few.prepared, target=target) for target in ((0, 1), None))
    slopes = gradient(model, tokenizer, contrasted, score="probability", reduction="absolute sum")
    signed = [one.scores for one in slopes]
    norms = [one.scores for one in gradient(model, tokenizer, predicted, score="logit", reduction="norm")]
    expected = by_hand_published(few, method, signed).mean(0), np.nanmean(by_hand_corrected(few, method, norms), 0)
    for protocol, means in zip((PUBLISHED, CORRECTED), expected, strict=True):
        cells = tables[table2].by_layer(method, protocol)
        assert [cell.mean for cell in cells] == pytest.approx(means.tolist(), abs=1e-6)


def test_layer_one_of_rollout_and_flow_is_one_and_the_same(tables):
    for table in tables.values():
        for column in ("published 1", "corrected 1"):
            assert table.cell("rollout", column).mean == pytest.approx(table.cell("flow", column).mean)


def test_on_words_alone_layer_one_is_the_same_for_all_three(tables):
    """The residual adds to CLS itself and scales the rest, so without CLS the ranks of layer 1 are those of raw."""
    for table in tables.values():
        first = [table.cell(method, "corrected 1").mean for method in ("raw", "rollout", "flow")]
        assert first == pytest.approx([first[0]] * 3)


def test_one_protocol_alone_gives_what_it_gives_in_company(tables, few):
    alone = table1(zoo.model(), zoo.tokenizer(), few, protocols=[CORRECTED])
    for method in alone.methods:
        assert alone.by_layer(method, CORRECTED) == tables[table1].by_layer(method, CORRECTED)


def test_a_sentence_of_one_word_is_undefined_and_does_not_spoil_the_rest(few):
    with_short = prepare(zoo.model(), zoo.tokenizer(), [*few.beginnings, Beginning("keys", 1)], "test")
    table = table1(zoo.model(), zoo.tokenizer(), with_short)
    assert {(cell.undefined, cell.count) for cell in table.by_layer("raw", CORRECTED)} == {(1, 12)}
    assert {cell.undefined for cell in table.by_layer("raw", PUBLISHED)} == {0}


def test_the_interval_holds_the_mean(tables):
    for cell in tables[table1].by_layer("rollout", CORRECTED):
        assert cell.low <= cell.mean <= cell.high


def test_accuracy_is_that_of_these_sentences(tables, few):
    right = [
        attnx.explain(zoo.model(), zoo.tokenizer(), one.text, methods="raw").prediction.index == one.label
        for one in few.beginnings
    ]
    assert tables[table1].accuracy == np.mean(right)
