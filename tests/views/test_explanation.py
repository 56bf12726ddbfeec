"""Which view is meant, where a text and an image have different ones."""

from io import StringIO

import pytest
from rich.console import Console

import attnx
from attnx.views.terminal import coloured
from attnx.views.text import plain
from tests import zoo
from tests.results import examples


def test_markdown_has_a_column_for_each_method_and_reference():
    lines = examples.explanation().to_markdown().splitlines()
    assert lines[0] == r"**good (0.750), layer 2, as seen from \[CLS\]**"
    assert lines[2].startswith("raw: Spearman's rank correlation over 2 tokens: gradient ")
    assert lines[4] == "| word | raw | flow | gradient |"
    assert lines[6] == r"| a\|bc | 0.875 | 0.292 | 1.00 |"
    assert "measured on the model, not attention: gradient" in lines


def test_markdown_of_an_image_has_its_patches():
    image = attnx.explain(zoo.model("vit"), None, zoo.inputs("vit"), methods="rollout")
    assert len(image.to_markdown().split("\n\n")[2].splitlines()) == len(image.words) + 2


def test_csv_has_references_as_columns():
    head, first, *_ = examples.explanation().to_csv().splitlines()
    assert head == "method,layer,position,token,word,special,score,gradient"
    assert first == "raw,1,0,[CLS],,True,0.25,0.5"


@pytest.fixture(scope="module")
def of_target():
    """The prediction of a text, its other class as target, and the explanation of that."""
    given = zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to the cabinets"
    prediction = attnx.explain(*given, methods="raw", references=()).prediction
    target = next(label for label in prediction.labels if label != prediction.label)
    return prediction, target, attnx.explain(*given, methods="raw", references=("lrp",), target=target)


def test_the_prediction_is_named_in_every_view_and_the_target_beside_it(of_target):
    prediction, other, e = of_target
    target = f"{other} ({e.prediction.probability:.3f})"
    assert str(e.prediction) == f"{prediction}; target {target}"
    assert e.prediction.predicted == prediction.label
    assert f"predicted {prediction}; target {target}" in repr(e)
    assert e.verdict.startswith(f"prediction {prediction}, target {target} from ")
    assert str(e).startswith(f"prediction: {prediction} · target: {target} · ")
    assert f"█ supports {other}, ▒ opposes it" in plain(e, "lrp")
    assert e.plot().get_xlabel().startswith(f"prediction: {prediction} · target: {target}\n")
    console = Console(width=200, file=StringIO())
    console.print(coloured(e))
    assert f"prediction {prediction} · target {target} · " in console.file.getvalue()
    assert attnx.Explanation.from_json(e.to_json()).prediction == e.prediction


def test_the_prediction_alone_is_named_once(of_target):
    prediction, _, _ = of_target
    e = attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to the cabinets", methods="raw", target=prediction.label
    )
    assert str(e.prediction) == str(prediction)
    assert " · target: " not in str(e)


def test_captum_is_told_the_prediction_and_the_target(of_target):
    prediction, other, e = of_target
    record = e.to_captum()
    assert (record.pred_class, record.attr_class) == (prediction.label, other)
    assert record.pred_prob == pytest.approx(prediction.probability)


def test_a_generated_token_that_is_not_the_prediction_is_named_beside_it():
    given = zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to the cabinets"
    g = attnx.explain_generation(*given, continuation=" is", methods="raw")
    token = g.predictions[0]
    best = attnx.explain(*given, methods="raw", references=()).prediction
    assert token.label != best.label
    told = f"'{best.label}' {best.probability:.3f}"
    assert f"(predicted: {told})" in str(g)
    assert "| predicted |" in g.to_markdown()
    assert f"prediction: {best} · target: {token.label}" in str(g.step(0))
