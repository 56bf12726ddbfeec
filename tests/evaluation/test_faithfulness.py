"""Faithfulness against an implementation written down from the definitions, one forward pass at a time."""

import numpy as np
import pytest
import torch

import attnx
from attnx.attribution import REFERENCES, Scored
from attnx.attribution.base import Reference
from attnx.errors import ChoiceError, FileFormatError, InputError
from attnx.evaluation import METRICS, RANDOM, Faithfulness
from attnx.evaluation.removal import order_of, removed_counts, share_count
from tests import verb_number_zoo as zoo
from tests.made import with_scores

TEXTS = list(zoo.TEXTS[:3])


@pytest.fixture(scope="module")
def measured():
    return attnx.faithfulness(zoo.model(), zoo.tokenizer(), TEXTS, progress=False)


def probability(ids, gone, target):
    ids = ids.clone()
    ids[list(gone)] = zoo.tokenizer().unk_token_id
    with torch.no_grad():
        return float(zoo.model()(ids[None]).logits[0].softmax(-1)[target])


def by_hand(text, explainer):
    """Comprehensiveness, sufficiency and the two areas, straight from their definitions."""
    e = attnx.explain(zoo.model(), zoo.tokenizer(), text, references=("gradient", "blankout"))
    (prepared,) = zoo.prepared(text)
    ids, target = prepared.inputs["input_ids"], e.prediction.index
    content = [one.index for one in e.positions if not one.special]
    order = sorted(content, key=lambda place: -e.scores(explainer)[place])
    whole = probability(ids, [], target)
    falls, left = [], []
    for share in (0.01, 0.05, 0.1, 0.2, 0.5):
        count = max(1, int(np.ceil(share * len(order))))
        falls.append(whole - probability(ids, order[:count], target))
        left.append(whole - probability(ids, order[count:], target))
    counts = sorted({round(step * len(order) / 10) for step in range(11)})
    counts = sorted({*counts, *(max(1, int(np.ceil(share * len(order)))) for share in (0.01, 0.05, 0.1, 0.2, 0.5))})
    deletion = [probability(ids, order[:count], target) for count in counts]
    insertion = [probability(ids, order[count:], target) for count in counts]

    def area(values):
        steps = zip(counts, counts[1:], values, values[1:], strict=False)
        return sum((right - left) * (one + other) / 2 for left, right, one, other in steps) / len(order)

    return [np.mean(falls), np.mean(left), area(deletion), area(insertion)]


@pytest.mark.parametrize("explainer", ["raw", "rollout", "blankout"])
def test_all_four_numbers_equal_the_definition(measured, explainer):
    for number, text in enumerate(TEXTS):
        np.testing.assert_allclose(measured.values[explainer][number], by_hand(text, explainer), atol=1e-5)


def test_the_curves_start_and_end_where_they_must(measured):
    for name in (*measured.methods, RANDOM):
        whole, nothing = measured.deletion[name][[0, -1]]
        np.testing.assert_allclose(measured.insertion[name][[0, -1]], [nothing, whole], atol=1e-6)
    np.testing.assert_allclose(
        [measured.deletion[name][0] for name in measured.methods], measured.deletion[RANDOM][0], atol=1e-6
    )


def test_an_order_that_is_right_beats_chance_and_its_reverse_loses():
    def most(model, processor, cases, *, progress=False):
        return REFERENCES["blankout"](model, processor, cases, score="logit", signed=True)

    def least(model, processor, cases, *, progress=False):
        return [Scored(1e3 - one.scores) for one in most(model, processor, cases)]

    def least_wanted(model, processor, cases, *, progress=False):
        return [Scored(1e3 + one.scores) for one in most(model, processor, cases)]

    REFERENCES.add("shifted", Reference("shifted", least_wanted))
    REFERENCES.add("reversed", Reference("reversed", least))
    try:
        found = attnx.faithfulness(
            zoo.model(), zoo.tokenizer(), list(zoo.TEXTS), methods="raw", references=("shifted", "reversed"), random=20
        )
    finally:
        REFERENCES.remove("shifted")
        REFERENCES.remove("reversed")
    for metric in ("comprehensiveness", "insertion"):
        better, worse = (found.difference(name, metric).mean for name in ("shifted", "reversed"))
        assert better > 0 > worse


def test_random_orders_depend_on_the_seed_alone():
    one, same, other = (
        attnx.faithfulness(zoo.model(), zoo.tokenizer(), TEXTS[0], methods="raw", references=(), seed=seed)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.values[RANDOM], same.values[RANDOM])
    assert not np.array_equal(one.values[RANDOM], other.values[RANDOM])


def test_tied_positions_are_put_in_random_order():
    e = attnx.explain(zoo.model(), zoo.tokenizer(), TEXTS[0], references="blankout")
    flat = with_scores(e, references={"flat": np.ones(len(e.positions))})
    orders = {order_of(flat, "flat", None, np.random.default_rng(seed)) for seed in range(8)}
    assert len(orders) > 1


def test_counts_of_a_curve_hold_every_share_and_both_ends():
    assert removed_counts(7, 10, (0.01, 0.5)) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert removed_counts(1, 10, (0.2,)) == (0, 1)
    assert [share_count(share, 20) for share in (0.01, 0.05, 0.1, 0.5, 1)] == [1, 1, 2, 10, 20]


def test_text_markdown_json_csv_frame_and_plot(measured):
    from matplotlib.figure import Figure

    again = attnx.Faithfulness.from_json(measured.to_json())
    assert again.to_text() == measured.to_text() == str(measured)
    assert "random" in measured.to_markdown()
    frame = measured.to_frame()
    assert len(frame) == 3 * 6 == len(measured.to_csv().splitlines()) - 1
    assert list(frame.columns) == ["input", "method", *METRICS]
    axes = Figure().subplots(1, 2)
    assert measured.plot(axes) is axes
    assert len(axes[0].lines) == 6


def test_bad_choices_are_errors(measured):
    with pytest.raises(InputError, match="shares lie between 0 and 1"):
        attnx.faithfulness(zoo.model(), zoo.tokenizer(), "keys", shares=(0, 2))
    with pytest.raises(ChoiceError, match=r"method 'rolout' is not known; .* did you mean 'rollout'"):
        measured.cell("rolout", "deletion")
    with pytest.raises(ChoiceError, match="column 'delete' is not known"):
        measured.significance("rollout", "delete")


def test_a_few_texts_are_never_told_apart_from_chance():
    few = attnx.faithfulness(zoo.model(), zoo.tokenizer(), [zoo.TEXTS[0]] * 5, methods="raw", progress=False)
    assert {few.significance(name, metric) for name in few.methods for metric in METRICS} == {
        "not significantly different from chance"
    }
    assert "Fewer than 6 inputs" in few.to_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_file_of_something_else_is_an_error(text):
    with pytest.raises(FileFormatError, match="not a faithfulness table"):
        attnx.Faithfulness.from_json(text)


def test_a_negative_seed_is_an_error():
    with pytest.raises(InputError, match="a seed is a whole number from 0, found -1"):
        attnx.faithfulness(zoo.model(), zoo.tokenizer(), "keys", seed=-1, progress=False)


def test_the_table_says_which_explainers_are_ordered_by_sign():
    found = attnx.faithfulness(
        zoo.model(),
        zoo.tokenizer(),
        TEXTS,
        methods="raw",
        references={"input_x_gradient": {}, "gradient": {}},
        score="logit",
        random=2,
        progress=False,
    )
    assert found.signed == ("input_x_gradient",)
    assert "By sign: input_x_gradient." in found.to_text()
    assert Faithfulness.from_json(found.to_json()).signed == found.signed


def test_an_order_is_by_falling_score_and_not_by_size():
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), TEXTS[1], methods="raw", references="input_x_gradient")
    order = order_of(explanation, "input_x_gradient", None, np.random.default_rng(0))
    scores = explanation["input_x_gradient"][list(order)]
    assert (np.diff(scores) <= 1e-12).all()
    assert scores[-1] < 0
