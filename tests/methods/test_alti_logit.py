"""`alti_logit` against the sum that it must be, written out in double precision, and against closed forms."""

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.attention import AttentionTensor
from attnx.errors import AttentionError, ChoiceError
from attnx.graph import Graph, Selection
from attnx.graph.decomposition import contributions
from attnx.hooks.capture import capture
from attnx.methods import apply
from attnx.methods.alti_logit import ALTI_LOGIT, shares_of_score
from tests import zoo
from tests.graph.weightings import by_hand

TEXT = "the key to the"
TARGET = (5, 7)


def decoder(made, **changed):
    """A tiny decoder in double precision with sharp weights."""
    torch.manual_seed(0)
    small = {"vocab_size": len(zoo.bytelevel_tokenizer()), "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    model = made(small, **changed).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "embed" not in name and "wte" not in name:
                parameter.mul_(4)
            elif parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def gpt2(small, n_layer=3):
    return hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=32, n_layer=n_layer, n_head=4, n_positions=64, **small))


def llama(small):
    return hf.LlamaForCausalLM(hf.LlamaConfig(num_key_value_heads=2, **zoo.WIDTH, **small))


def gpt_neox(small):
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**zoo.WIDTH, **small))


def gemma2(small):
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(num_key_value_heads=2, head_dim=8, **zoo.WIDTH, **small))


PARTS = {
    gpt2: lambda m: (m.transformer.h, m.transformer.ln_f, lambda b: b.mlp),
    llama: lambda m: (m.model.layers, m.model.norm, lambda b: b.mlp),
    gpt_neox: lambda m: (m.gpt_neox.layers, m.gpt_neox.final_layer_norm, lambda b: b.mlp),
}


def explained(model, **options):
    return attnx.explain(model, zoo.bytelevel_tokenizer(), TEXT, methods="alti_logit", target=TARGET, **options)


@pytest.mark.parametrize("made", PARTS)
def test_score_is_the_sum_of_embedding_attention_mlps_and_biases(made):
    """u·L_f(x⁰) + Σ_l Σ_j Δ_l(j), R of ALTI between, and apart from it what MLPs and biases write: to 1e-10."""
    model = decoder(made)
    slack = 1e-7 if made is llama else 1e-10  # Llama computes its norms in single precision
    ids = zoo.bytelevel_tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    blocks, final, mlp = PARTS[made](model)
    seen = {}
    for number, block in enumerate(blocks):
        mlp(block).register_forward_hook(lambda _, args, out, number=number: seen.update({number: out[0, -1]}))
    final.register_forward_hook(lambda _, args, out: seen.update(entered=args[0][0, -1]))
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, -1]
    unembed = model.get_output_embeddings().weight.detach()
    u = unembed[TARGET[0]] - unembed[TARGET[1]]
    entered = seen["entered"]
    centred = isinstance(final, torch.nn.LayerNorm)
    epsilon = final.eps if centred else final.variance_epsilon
    variance = entered.var(unbiased=False) if centred else entered.square().mean()
    scale = final.weight.detach() / (variance + epsilon).sqrt()

    def read(vectors):
        return ((vectors - vectors.mean(-1, keepdim=True) if centred else vectors) * scale) @ u

    layers = capture(model, extras=("blocks",), input_ids=ids).layers
    rolled, expected, biases = torch.eye(len(ids[0])).double(), 0, 0.0
    for level in layers:
        handed = torch.tensor(by_hand.parts(level)[0])[-1]
        expected = expected + read(handed) @ rolled
        biases += float(read(level.captured["bias"]))
        rolled = contributions(level, 0, len(rolled)).weights[0] @ rolled
    expected[-1] += read(layers[0].captured["states"][-1])
    found = explained(model)
    np.testing.assert_allclose(found["alti_logit"][-1], expected, atol=slack)
    facts = found.attributions["alti_logit"].diagnostics
    mlps = sum(float(read(seen[number])) for number in range(len(blocks)))
    biases += float(final.bias.detach() @ u) if centred else 0.0
    assert facts["mlps"] == pytest.approx(mlps, abs=slack)
    assert facts["biases"] == pytest.approx(biases, abs=slack)
    assert facts["value"] == pytest.approx(float(logits[TARGET[0]] - logits[TARGET[1]]), abs=1e-10)
    assert facts["value"] == pytest.approx(facts["positions"] + facts["mlps"] + facts["biases"], abs=1e-10)


def test_one_layer_without_mlp_and_bias_is_the_value_path():
    model = decoder(gpt2, n_layer=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "mlp.c_proj" in name or name.endswith("bias"):
                parameter.zero_()
        model.transformer.wpe.weight.zero_()
    found = explained(model, references={"lrp": {"sink": False}})
    np.testing.assert_allclose(found["alti_logit"][-1], found["lrp"], atol=1e-10)
    facts = found.attributions["alti_logit"].diagnostics
    assert [facts["mlps"], facts["biases"]] == pytest.approx([0, 0], abs=1e-10)


def test_a_norm_on_the_branch_is_followed():
    facts = explained(decoder(gemma2)).attributions["alti_logit"].diagnostics
    # Gemma computes its norms in single precision, and has no biases.
    assert facts["biases"] == pytest.approx(0, abs=1e-4)


def test_a_layer_has_what_was_written_up_to_it():
    model = decoder(gpt2)
    whole, lower = explained(model), explained(model, layer=2)
    np.testing.assert_allclose(lower["alti_logit"][0], whole["alti_logit"][1], atol=1e-12)
    told = lower.attributions["alti_logit"].diagnostics
    assert told["above"] != 0
    assert "layers above" in told["account"]


def test_long_inputs_are_read_by_rows_to_the_same_numbers(monkeypatch):
    from attnx.pipeline import options as plan

    model = decoder(llama)
    held = explained(model)
    monkeypatch.setattr(plan, "LONG_INPUT", 3)
    np.testing.assert_allclose(explained(model)["alti_logit"], held["alti_logit"], atol=1e-10)


def test_a_dropped_sink_is_told_and_has_nothing_but_its_own():
    model = decoder(gpt2)
    found = explained(model, drop_sink=True)
    facts = found.attributions["alti_logit"].diagnostics
    assert found["alti_logit"][-1, 0] == 0
    assert facts["sink"] != 0
    parts = sum(facts[name] for name in ("positions", "mlps", "biases", "sink"))
    assert facts["value"] == pytest.approx(parts, abs=1e-10)


def test_the_other_way_round_speaks_against():
    model = decoder(llama)
    other = attnx.explain(model, zoo.bytelevel_tokenizer(), TEXT, methods="alti_logit", target=TARGET[::-1])
    np.testing.assert_allclose(other["alti_logit"], -explained(model)["alti_logit"], atol=1e-12)


def test_post_ln_models_are_refused_by_name():
    with pytest.raises(ChoiceError, match=r"BertForSequenceClassification norms it.*post-LN.*methods=\['lrp'"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", methods="alti_logit")


def test_attention_alone_has_no_answer():
    graph = Graph.of(by_hand.attention("gpt2"), edge_weights="alti")
    with pytest.raises(AttentionError, match=r"ask attnx\.explain for alti_logit"):
        apply(ALTI_LOGIT, graph, Selection.of(graph.depth, graph.length))


def test_three_tokens_by_hand():
    """The example of the page: two layers, the answer read at the last token along u = (2, −1)."""
    weights = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]]])
    states = np.array([[1.0, 0], [0, 2], [1, 1]])
    first = by_hand.made_up(weights, states[None], states=states, masked=True)
    entered = states + weights[0] @ states
    readout = torch.zeros(3, 2).double()
    readout[2] = torch.tensor([2.0, -1.0])
    second = by_hand.made_up(weights, entered[None], states=entered, masked=True)
    known = {"readout": readout, "read": torch.tensor(entered + weights[0] @ entered), "score": torch.tensor(6.0)}
    layers = [type(one)(one.weights, one.mask, captured={**one.captured, **known}) for one in (first, second)]
    graph = Graph.of(AttentionTensor(tuple(layers)), edge_weights="alti")
    found = shares_of_score(graph, Selection.of(2, 3))[:, 0, 0]
    np.testing.assert_allclose(found[0], [1, -0.5, 1 + 0.25])
    delta = weights[0][2] * (entered @ [2, -1])
    alti = contributions(layers[0], 0, 3).weights[0].numpy()
    np.testing.assert_allclose(found[1], delta @ alti + [1, -0.5, 1.25])
