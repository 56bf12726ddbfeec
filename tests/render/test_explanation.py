"""Which view is meant, where a text and an image have different ones."""

import attnx
from tests import zoo
from tests.results import examples


def test_markdown_has_a_column_for_each_method_and_reference():
    lines = examples.explanation().to_markdown().splitlines()
    assert lines[0] == r"**good (0.750), layer 2, as seen from \[CLS\]**"
    assert lines[2].startswith("raw: checked, agrees: ")
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
