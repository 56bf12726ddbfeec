"""Several scores of one input: what they are together, and each with a way back of its own."""

import pytest
import torch
import transformers as hf

from attnx.targets import Target, encode_targets, score_each
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
