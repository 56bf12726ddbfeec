"""What stands for nothing: one rule for everything that blanks, and results that say which blank it was."""

from functools import cache

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, blankout, cases, choose_baseline
from attnx.errors import ChoiceError, InputError
from attnx.views.text import cautions
from tests import verb_number_zoo, zoo

BLANKING = ("blankout", "integrated_gradients", "gradient_shap", "occlusion", "feature_ablation")


def chosen(model, tokenizer, text="a b", named=None):
    adapter = adapter_for(model)
    return choose_baseline(model, adapter, tokenizer, adapter.prepare(model, tokenizer, text), named)


def of_letters(unknown_in_model=None, **special):
    """A tokenizer of the letters a and b; whether anything becomes unknown is its model's affair."""
    vocabulary = {"<end>": 0, "<unk>": 1, "a": 2, "b": 3, "Ġ": 4}
    model = models.BPE(vocabulary, [], unk_token=unknown_in_model)
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", **special)


@cache
def decoder():
    """A GPT-2 for these letters."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=5, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config).eval()


def test_the_mask_token_stands_for_nothing_where_there_is_one():
    assert chosen(zoo.classifier(), zoo.wordpiece_tokenizer()).name == "[MASK]"


def test_an_unknown_token_that_words_become_stands_for_nothing():
    assert chosen(verb_number_zoo.model(), verb_number_zoo.tokenizer(), "keys").name == "<unk>"
    assert chosen(decoder(), of_letters("<unk>", unk_token="<unk>")).name == "<unk>"


@pytest.mark.parametrize(
    "tokenizer",
    [
        pytest.param(lambda: of_letters("<end>", unk_token="<end>"), id="it ends a text"),
        pytest.param(lambda: of_letters("<unk>", unk_token="<unk>", pad_token="<unk>"), id="it pads"),
        pytest.param(lambda: of_letters(None, unk_token="<unk>"), id="nothing becomes unknown"),
        pytest.param(lambda: of_letters(None), id="there is none"),
    ],
)
def test_an_unknown_token_that_is_something_else_is_no_blank(tokenizer):
    assert chosen(decoder(), tokenizer()).name == "mean embedding"


def test_a_model_that_reads_no_embeddings_loses_the_position():
    class ByIds(type(decoder())):
        def forward(self, input_ids=None, attention_mask=None):
            return super().forward(input_ids=input_ids, attention_mask=attention_mask)

    model = ByIds(decoder().config).eval()
    baseline = chosen(model, of_letters())
    assert (baseline.name, baseline.shortens) == ("deletion", True)
    with pytest.raises(InputError, match="baseline='mean' needs a model that answers"):
        chosen(model, of_letters(), named="mean")


def test_a_model_that_looks_embeddings_up_in_its_table_has_no_mean():
    """Gemma 4 finds the ids again by the row, for tables of each layer."""

    class LooksUp(type(decoder())):
        def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
            table = self.get_input_embeddings().weight
            if inputs_embeds is not None and not (inputs_embeds[:, :, None] == table).all(-1).any(-1).all():
                raise RuntimeError("these are no rows")
            return super().forward(input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds)

    model = LooksUp(decoder().config).eval()
    assert chosen(model, of_letters()).name == "deletion"
    with pytest.raises(InputError, match="no rows of its table"):
        chosen(model, of_letters(), named="mean")
    attnx.explain(model, of_letters(), "a b a b", references="blankout")


def test_the_mean_embedding_is_blanked_in_its_place():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    adapter = adapter_for(model)
    prepared = adapter.prepare(model, tokenizer, "the cat sat")
    (case,) = cases(model, tokenizer, [prepared])
    (found,) = blankout(model, tokenizer, [case], score="logit")
    table = model.get_input_embeddings().weight.detach()
    with torch.no_grad():
        rows = model.get_input_embeddings()(prepared.inputs["input_ids"])[None]
        whole = model(inputs_embeds=rows).logits[0, case.target.position, case.target.index]
        for place in case.content:
            blanked = rows.clone()
            blanked[0, place] = table.double().mean(0)
            after = model(inputs_embeds=blanked).logits[0, case.target.position, case.target.index]
            assert found.scores[place] == pytest.approx(float(whole - after), abs=1e-5)
    assert found.facts["baseline"] == "mean embedding"


def test_the_mean_follows_the_weights():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "the cat")
    baseline = chosen(model, tokenizer, "the cat")
    weight = model.get_input_embeddings().weight
    before = baseline.apply(prepared, [0]).inputs["inputs_embeds"][0]
    with torch.no_grad():
        weight += 1
    try:
        torch.testing.assert_close(baseline.apply(prepared, [0]).inputs["inputs_embeds"][0], before + 1)
    finally:
        with torch.no_grad():
            weight -= 1


@pytest.mark.parametrize(("model", "tokenizer", "name"), [
    (zoo.classifier, zoo.wordpiece_tokenizer, "[MASK]"),
    (zoo.causal_lm, zoo.bytelevel_tokenizer, "mean embedding"),
])  # fmt: skip
def test_everything_that_blanks_does_so_by_one_rule_and_says_how(model, tokenizer, name):
    explanation = attnx.explain(model(), tokenizer(), "a witty film", methods="raw", references=BLANKING)
    for reference in BLANKING:
        assert explanation.attributions[reference].diagnostics["baseline"] == name
        assert f"{reference} (blanked with {name})" in "".join(cautions(explanation, explanation.methods))
    found = attnx.faithfulness(
        model(), tokenizer(), "a witty film", methods="raw", references=(), random=1, progress=False
    )
    assert found.replacement == name
    assert f"blanked with {name}" in found.to_text().splitlines()[0]
    assert attnx.Faithfulness.from_json(found.to_json()).replacement == name


@pytest.mark.parametrize("reference", BLANKING)
def test_the_caller_may_choose(reference):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    by_rule, by_name = (
        attnx.explain(model, tokenizer, "a witty film", methods="raw", references={reference: options})
        for options in ({}, {"baseline": "[UNK]"})
    )
    assert by_name.attributions[reference].diagnostics["baseline"] == "[UNK]"
    assert not np.allclose(by_rule[reference], by_name[reference])


def test_a_path_cannot_begin_at_a_shorter_text():
    with pytest.raises(ChoiceError, match="the baseline must be as long as the text"):
        attnx.explain(
            zoo.classifier(),
            zoo.wordpiece_tokenizer(),
            "a",
            references={"integrated_gradients": {"baseline": "delete"}},
        )


def test_a_comparison_says_with_what_its_reference_blanks():
    found = attnx.compare(
        zoo.classifier(), zoo.wordpiece_tokenizer(), ["a witty film"], against="blankout", progress=False
    )
    assert found.to_text().startswith("Agreement with blankout (blanked with [MASK]): spearman")
    assert "Agreement with blankout (blanked with [MASK])" in found.to_html()


def test_a_reference_that_blanks_nothing_says_nothing_of_it():
    found = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film", references="gradient")
    assert "baseline" not in found.attributions["gradient"].diagnostics
    assert "blanked" not in found.to_text()
    assert not REFERENCES["gradient"].signed
