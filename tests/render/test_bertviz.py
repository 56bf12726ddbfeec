"""What BertViz takes: the model's own attention, head by head."""

import re

import pytest
import torch

import attnx
from attnx.errors import InputError
from tests import zoo

TEXT = "the key to the cabinets"


@pytest.fixture(scope="module")
def each():
    return attnx.explain(
        zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods=["raw", "rollout"], head="each", maps=True
    )


def test_attention_is_the_models_own(each):
    tokenizer = zoo.wordpiece_tokenizer()
    attention = attnx.capture(zoo.classifier(), **tokenizer(TEXT, return_tensors="pt"))
    given = each.to_bertviz()
    assert given["tokens"] == list(each.tokens)
    assert [layer.shape for layer in given["attention"]] == [(1, 4, 7, 7)] * 3
    torch.testing.assert_close(torch.cat(given["attention"]), attention.weights, rtol=0, atol=1e-6)


def test_other_methods_take_the_same_place(each):
    (first, *_) = each.to_bertviz("rollout")["attention"]
    torch.testing.assert_close(first[0], torch.tensor(each.maps["rollout"][0]))


def test_merged_heads_are_one_head():
    merged = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods="rollout", maps=True)
    assert merged.to_bertviz()["attention"][0].shape == (1, 1, 7, 7)


def test_the_second_text_of_a_pair_is_told_apart():
    pair = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), ("the key", "a table"), maps=True, methods="raw")
    given = pair.to_bertviz()
    assert given["tokens"][given["sentence_b_start"] :] == ["a", "table", "[SEP]"]


def test_without_maps_it_says_how_to_get_them():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods="raw")
    with pytest.raises(InputError, match='methods="raw", head="each", maps=True'):
        one.to_bertviz()


@pytest.mark.parametrize("view", ["head_view", "model_view"])
def test_bertviz_draws_it(each, view):
    bertviz = pytest.importorskip("bertviz", reason="bertviz is not installed")
    page = getattr(bertviz, view)(**each.to_bertviz(), html_action="return").data
    assert '"cabinets"' in page
    drawn = re.search(r'"attn": \[\[\[\[([\d.e-]+),', page).group(1)
    assert float(drawn) == pytest.approx(float(each.maps["raw"][0, 0, 0, 0]), abs=1e-6)
