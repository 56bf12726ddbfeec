"""Targets as a user names them; several scores of one input, each with a backward pass of its own."""

import pytest
import torch
import transformers as hf

from attnx.errors import ChoiceError
from attnx.targets import Target, encode_targets, score_each
from attnx.targets.base import class_index, token_index
from attnx.targets.score import score
from tests import zoo

MODELS = {
    "told where to answer": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(vocab_size=zoo.VOCABULARY, **zoo.WIDTH, **zoo.GROUPED)
    ),
    "answers everywhere": lambda: hf.BertForMaskedLM(hf.BertConfig(vocab_size=zoo.VOCABULARY, **zoo.WIDTH)),
    "answers once": lambda: hf.BertForSequenceClassification(
        hf.BertConfig(vocab_size=zoo.VOCABULARY, num_labels=9, **zoo.WIDTH)
    ),
}
TARGETS = encode_targets([Target(4, 6), Target(7, 2), Target(1, 6, against=3)])


@pytest.mark.parametrize("kind", ["logit", "margin", "log_odds"])
@pytest.mark.parametrize("name", MODELS)
def test_each_is_what_it_is_among_all(name, kind):
    torch.manual_seed(0)
    model = MODELS[name]().eval().double()
    entry = model.get_input_embeddings().weight
    ids = {"input_ids": torch.arange(3, 12)[None]}
    together = score(model, ids, TARGETS, kind, torch.zeros(3, dtype=torch.long))
    apart = score_each(model, ids, TARGETS, kind)
    assert len(apart) == 3
    assert len(set(together.tolist())) == 3
    for one, other in zip(apart, together.split(1), strict=True):
        torch.testing.assert_close(one, other)
        slopes = [torch.autograd.grad(way, entry, retain_graph=True)[0] for way in (one, other)]
        assert slopes[0].abs().max() > 0
        torch.testing.assert_close(*slopes)


def test_a_number_is_a_class_also_where_labels_are_numbers():
    stars = ("1", "2", "3", "4", "5")
    assert [class_index(1, stars), class_index("1", stars), class_index("0", stars)] == [1, 0, 0]
    assert class_index("us", ("US", "us")) == 1


def test_a_token_id_is_a_whole_number_of_the_vocabulary():
    assert token_index(3, None, 10) == 3
    with pytest.raises(ChoiceError, match=r"target must be a whole number, found 1\.5"):
        token_index(1.5, None, 10)
    with pytest.raises(ChoiceError, match="target 10 is no token id of this vocabulary of 10"):
        token_index(10, None, 10)
