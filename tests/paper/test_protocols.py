"""The two protocols differ where the authors' code and the paper do, and nowhere else."""

from dataclasses import asdict

from attnx.paper import PROTOCOLS
from attnx.paper.tables import CORRECTED, PUBLISHED, positions
from tests import verb_number_zoo as zoo


def test_published_is_what_the_authors_code_did():
    assert asdict(PUBLISHED) == {
        "name": "published",
        "blanked": "all but the last",
        "gradient_of": "probability difference",
        "gradient_reduction": "absolute sum",
        "ranked": "all",
        "ranks": "dense",
        "undefined": "zero",
        "rows": "CLS",
        "embedded_twice": False,
    }


def test_corrected_is_what_the_paper_says():
    assert asdict(CORRECTED) == {
        "name": "corrected",
        "blanked": "content",
        "gradient_of": "predicted logit",
        "gradient_reduction": "norm",
        "ranked": "content",
        "ranks": "average",
        "undefined": "left out",
        "rows": "CLS",
        "embedded_twice": False,
    }


def test_both_are_known_by_name():
    assert PROTOCOLS == {"published": PUBLISHED, "corrected": CORRECTED}


def test_published_blanks_cls_and_spares_eos_while_corrected_leaves_both_alone():
    (prepared,) = zoo.prepared("the key to the cabinets")
    assert positions(prepared, PUBLISHED.blanked) == [0, 1, 2, 3, 4, 5]
    assert positions(prepared, CORRECTED.blanked) == [1, 2, 3, 4, 5]


def test_published_ranks_every_position_and_corrected_the_words():
    (prepared,) = zoo.prepared("the key to the cabinets")
    assert positions(prepared, PUBLISHED.ranked) == [0, 1, 2, 3, 4, 5, 6]
    assert positions(prepared, CORRECTED.ranked) == [1, 2, 3, 4, 5]


def test_an_unknown_word_is_content():
    (prepared,) = zoo.prepared("the zyzzyva")
    assert positions(prepared, "content") == [1, 2]


def test_the_foot_of_a_table_speaks_of_its_own_reference():
    assert PUBLISHED.describe("blank-out").startswith("all but the last positions blanked; all positions ranked; dense")
    assert "∂(p0 − p1)/∂embedding" in PUBLISHED.describe("input gradients")
    assert "L2 norm of ∂logit(predicted)/∂embedding" in CORRECTED.describe("input gradients")
