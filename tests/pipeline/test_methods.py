"""`methods=` names everything that scores positions, whatever it needs: a graph, a backward pass, further runs."""

import pytest

import attnx
from attnx.errors import ChoiceError, InputError
from tests import verb_number_zoo as zoo

TEXT = "the keys to the cabinet"
REACHED = ("to_html", "to_markdown", "to_text", "to_csv", "to_json", "__rich__", "_repr_html_")


def explain(methods):
    return attnx.explain(zoo.model(), zoo.tokenizer(), TEXT, methods=methods)


@pytest.mark.parametrize(
    "methods", [["rollout", "lrp"], ["lrp", "rollout"], ["gradient"], "lrp", {"blankout": {"unit": "word"}, "raw": {}}]
)
def test_they_are_shown_in_the_order_in_which_they_are_named(methods):
    e = explain(methods)
    assert e.methods == ((methods,) if isinstance(methods, str) else tuple(methods))
    assert (e.scores() == e.scores(e.methods[0])).all()
    assert attnx.Explanation.from_json(e.to_json()) == e
    for name in REACHED:
        assert getattr(e, name)()


def test_options_of_a_method_are_used_and_kept_on_record():
    e = explain({"blankout": {"unit": "word"}, "rollout": {}})
    assert e.provenance["methods"]["blankout"] == {"unit": "word"}
    assert (e["blankout"] != explain("blankout")["blankout"]).any() or len(e.words) == len(e.positions.content)


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        ([], InputError, "no method"),
        ("saliency", ChoiceError, "method 'saliency' is not known; there are: raw, .*lrp"),
        ({"rollout": {"steps": 3}}, ChoiceError, "rollout takes no options of its own"),
        ({"blankout": {"units": 1}}, ChoiceError, "'units'"),
    ],
)
def test_what_does_not_exist_is_named(methods, error, message):
    with pytest.raises(error, match=message):
        explain(methods)


@pytest.mark.parametrize("methods", [["lrp"], ["rollout", "lrp"]])
def test_a_generation_takes_them_alike(methods):
    from attnx.demo_models.recall import load_demo

    g = attnx.explain_generation(*load_demo(), "k3 v7 k1 v2 k8 v5 k1", max_new_tokens=1, methods=methods)
    assert g.methods == tuple(methods)
    for name in REACHED:
        assert getattr(g, name)()
