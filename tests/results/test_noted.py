"""What is noted of texts reaches the results that are made of many of them."""

import pytest

import attnx
from attnx.evaluation.view import note_blocks
from attnx.views import as_text
from tests import zoo

LONG = " ".join(["the movie is witty"] * 40)


@pytest.mark.parametrize(
    ("study", "options"),
    [
        (attnx.compare, {"methods": "raw"}),
        (attnx.faithfulness, {"methods": "raw", "random": 1}),
        (attnx.head_atlas, {"methods": "raw"}),
    ],
)
def test_a_text_that_was_cut_is_told_under_the_table(study, options):
    asked = {"references": "gradient", "truncate": True, "progress": False, **options}
    found = study(zoo.classifier(), zoo.wordpiece_tokenizer(), [LONG, "the movie is dull", LONG], **asked)
    (note,) = (one for one in found.notes if "was cut" in one)
    assert found.notes[note] == 2
    assert f"{note} (in 2 of 3)" in found.to_text()
    again = type(found).from_json(found.to_json())
    assert again.notes == found.notes
    assert again.to_text() == found.to_text()


def test_of_many_notes_the_first_are_told_and_the_others_counted():
    told = as_text(note_blocks({f"note {number}": 1 for number in range(1200)}, 1200))
    assert told.splitlines()[0] == "note 0 (in 1 of 1,200)"
    assert told.splitlines()[-1] == "… and 1,195 other notes"
    assert note_blocks({}, 3) == []
