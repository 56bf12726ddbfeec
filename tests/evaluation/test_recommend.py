"""`recommend`: the right order is above chance, the wrong one is not, and explain follows."""

import json
from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.attribution import REFERENCES, Scored
from attnx.attribution.base import Reference
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.evaluation import RANDOM, Recommendation
from attnx.evaluation import recommend as candidates
from tests import verb_number_zoo as zoo

TEXTS = [*zoo.TEXTS, "keys to the cabinets", "the key to the cabinets is", "the boys that the girl"][:8]


def made(**shifts):
    """A recommendation of 20 texts: chance, and explainers that cost more by so much."""
    random = np.random.default_rng(0)
    chance = random.uniform(0, 0.2, 20)
    noise = {name: random.normal(0, 0.02, 20) for name in shifts}
    values = {name: (chance + shift + noise[name])[:, None] for name, shift in shifts.items()}
    return Recommendation(
        values={**values, RANDOM: chance[:, None]},
        references={"gradient": {}, "blankout": {"unit": "word"}},
        layer=3,
        score="probability",
        replacement="[MASK]",
    )


@pytest.fixture(scope="module")
def measured():
    def most(model, processor, cases, *, progress=False):
        return REFERENCES["blankout"](model, processor, cases, score="probability")

    def least(model, processor, cases, *, progress=False):
        return [Scored(-one.scores, signed=True) for one in most(model, processor, cases)]

    for name, function in (("most", most), ("least", least)):
        REFERENCES.add(name, Reference(name, function, forwards=lambda positions, **options: positions))
    try:
        yield attnx.recommend(
            zoo.model(), zoo.tokenizer(), TEXTS, methods="raw", references=("most", "least"), progress=False
        )
    finally:
        for name in ("most", "least"):
            REFERENCES.remove(name)


def test_values_are_the_comprehensiveness_of_faithfulness():
    asked = {"methods": ("raw", "rollout"), "references": "blankout", "random": 6, "seed": 3, "progress": False}
    one = attnx.recommend(zoo.model(), zoo.tokenizer(), list(zoo.TEXTS), **asked)
    other = attnx.faithfulness(zoo.model(), zoo.tokenizer(), list(zoo.TEXTS), **asked)
    for name in ("raw", "rollout", "blankout", RANDOM):
        np.testing.assert_allclose(one.values[name], other.values[name][:, :1], atol=1e-5)
    assert one.replacement == other.replacement == "<unk>"


def test_the_right_order_comes_first_and_its_reverse_last(measured):
    assert measured.ranking()[0] == "most"
    assert measured.ranking()[-1] == "least"
    assert measured.forwards["most"] == measured.forwards["least"] > measured.forwards["raw"]
    assert set(measured.references) == {"most", "least"}


def test_what_several_orders_share_is_run_once(measured):
    shares = 5 * (3 + measured.orders) + 1
    assert 0 < measured.runs < len(TEXTS) * shares


def test_what_is_clear_is_above_chance_and_what_is_not_is_not_significant():
    one = made(gradient=0.3, blankout=0.302, rollout=0.1, raw=0.001, flow=-0.1)
    assert one.ranking() == ("blankout", "gradient", "rollout", "raw", "flow")
    assert one.above_chance == ("blankout", "gradient", "rollout") == tuple(one)
    assert (one.best, one.as_good) == ("blankout", ("gradient",))
    assert [one.below_best(name) for name in one.ranking()] == [False, False, True, True, True]
    assert one.significance("flow") == "below chance"
    assert one.difference("blankout", to="rollout").low > 0 > one.difference("flow").high
    assert one.summary() == (
        "blankout: removing its first words costs the prediction .41, chance .10; gradient is not significantly "
        "different from blankout; raw is not significantly different from chance here; flow is below chance here."
    )
    assert one.summary() in one.to_text()
    lines = {line.split()[0]: line for line in one.to_text().splitlines() if line}
    assert lines["gradient"].endswith("+ above chance, as good as the best")
    assert lines["rollout"].endswith("+ above chance, behind the best")
    assert lines["raw"].endswith("not significant")


def test_the_printed_interval_agrees_with_the_significance():
    """A difference is not significant exactly where its printed interval includes 0."""
    for shift in np.linspace(0, 0.03, 13):
        one = made(gradient=shift, rollout=0.3, raw=0.0, flow=-shift)
        for name in one.methods:
            difference = one.difference(name)
            significant = one.significance(name) != "not significantly different from chance"
            assert significant == (not difference.low <= 1e-9 <= difference.high + 2e-9), (shift, name)


def test_fewer_than_six_texts_show_nothing():
    whole = made(gradient=0.3, raw=0.3)
    five = Recommendation(**{**vars(whole), "values": {name: one[:5] for name, one in whole.values.items()}})
    assert five.above_chance == ()
    assert five.best is None
    assert five.summary() == "5 texts cannot show which methods are above chance; give 6 or more."
    assert "too few texts" in five.to_text()
    with pytest.raises(InputError, match="names nothing to explain with: 5 texts cannot show"):
        attnx.explain(zoo.model(), zoo.tokenizer(), "keys", methods=five)


def test_where_nothing_is_above_chance_it_says_so():
    one = made(raw=0.0, rollout=0.0)
    assert one.summary() == f"None of {' and '.join(one.ranking())} is significantly different from chance here."


def test_explain_follows_the_best_first_and_keeps_the_record():
    one = made(gradient=0.3, rollout=0.2, blankout=0.25, raw=0.0)
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), "the key to the cabinets", methods=one)
    assert explanation.methods == ("gradient", "rollout", "blankout")
    assert explanation.methods[0] == "gradient"
    assert explanation.provenance["methods"]["blankout"]["unit"] == "word"
    kept = explanation.provenance["recommendation"]
    assert kept["summary"] == one.summary()
    assert kept["above_chance"] == ["gradient", "blankout", "rollout"]
    again = attnx.Explanation.from_json(explanation.to_json())
    assert again.provenance["recommendation"] == kept


def measured_otherwise():
    settings = {"head": "max", "residual": {"rollout": 0.9, "raw": 0.9, "alti": "model"}, "normalize": None}
    return replace(made(rollout=0.2, raw=0.0), layer=1, provenance={"settings": settings})


def test_it_is_followed_at_the_layer_and_with_the_settings_of_the_measurement():
    one, text = measured_otherwise(), "the key to the cabinets"
    followed = attnx.explain(zoo.model(), zoo.tokenizer(), text, methods=one)
    expected = attnx.explain(zoo.model(), zoo.tokenizer(), text, methods="rollout", layer=1, residual=0.9, head="max")
    assert followed.layers == (1,)
    np.testing.assert_allclose(followed["rollout"], expected["rollout"])
    kept = followed.provenance["recommendation"]
    assert (kept["layer"], kept["settings"]) == (1, one.provenance["settings"])


def test_the_callers_own_choice_wins_with_a_note():
    one = measured_otherwise()
    followed = attnx.explain(zoo.model(), zoo.tokenizer(), "the key", methods=one, layer=2, residual=0.5, head="max")
    assert followed.layers == (2,)
    assert followed.provenance["settings"]["residual"] == {"rollout": 0.5}
    assert [note for note in followed.notes if "recommendation" in note] == [
        "the recommendation was measured with layer=1, residual=0.9; here it is layer=2, residual=0.5"
    ]


def test_the_record_names_the_layer_and_the_settings():
    chosen = {"methods": "rollout", "references": "gradient", "layer": 1, "residual": 0.9}
    one = attnx.recommend(zoo.model(), zoo.tokenizer(), TEXTS[:2], **chosen, random=1, progress=False)
    record = one.on_record()
    assert (record["layer"], record["settings"]["residual"]) == (1, {"rollout": 0.9})


def test_where_only_references_are_above_chance_a_method_is_there_with_a_note():
    one = made(gradient=0.3, flow=0.0, raw=-0.05)
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), "the key", methods=one)
    assert explanation.methods == ("gradient", "flow")
    assert "flow is there because no method was above chance" in " ".join(explanation.notes)


def test_by_default_all_are_asked_and_what_the_model_cannot_have_is_left_out(monkeypatch, capsys):
    def refuses(model, processor, cases, *, progress=False):
        raise AttnxError("not on this model; use another")

    monkeypatch.setattr(candidates, "FORWARDS", 3)
    REFERENCES.add("refusing", Reference("refusing", refuses))
    try:
        one = attnx.recommend(zoo.model(), zoo.tokenizer(), list(zoo.TEXTS[:2]), random=1)
    finally:
        REFERENCES.remove("refusing")
    assert {"raw", "rollout", "flow", "gradient", "lrp"} <= set(one.methods)
    assert "blankout" not in one.methods
    assert one.left_out["blankout"].startswith("it takes more than 3 forwards for ")
    assert one.left_out["value_zeroing"].startswith("it takes more than 3 forwards for ")
    assert one.left_out["value_zeroing"].endswith("methods=('value_zeroing', …) insists")
    assert (one.forwards["alti"], one.forwards["alti_logit"], one.forwards["gradient_rollout"]) == (1, 2, 2)
    assert one.left_out["refusing"] == "not on this model; use another"
    assert "Left out: refusing (not on this model; use another); blankout (it takes" in one.to_text()
    said = capsys.readouterr().err
    assert said.startswith(f"recommend: {len(one.methods)} methods on 2 texts, some ")
    assert "runs of the model, about" in said


def test_what_was_asked_for_is_not_left_out():
    with pytest.raises(ChoiceError, match="reference 'grad' is not known"):
        attnx.recommend(zoo.model(), zoo.tokenizer(), ["keys"], references="grad")
    with pytest.raises(InputError, match="random must be at least 1"):
        attnx.recommend(zoo.model(), zoo.tokenizer(), ["keys"], random=0)


def test_files_text_markdown_page_and_plot(tmp_path):
    one = made(gradient=0.3, rollout=0.2, raw=0.0)
    one.save(tmp_path / "one.safetensors")
    assert Recommendation.load(tmp_path / "one.safetensors") == one == Recommendation.from_json(one.to_json())
    assert json.loads(one.to_json())["kind"] == "recommendation"
    assert "| gradient |" in one.to_markdown()
    assert one.summary().split(";")[0] in one.to_html()
    assert len(one.to_frame()) == 4 * 20 == len(one.to_csv().splitlines()) - 1
    axes = one.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["raw", "rollout", "gradient"]
    assert repr(one) == "Recommendation(20 texts, above chance: gradient, rollout)"
    with pytest.raises(ChoiceError, match="method 'flow' is not known"):
        one.significance("flow")
