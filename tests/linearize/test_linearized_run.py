"""The frozen run: what flows back adds up, equals what is known by other ways, and leaves no trace."""

import copy
import gc
import operator
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import nn
from torch.overrides import TorchFunctionMode

from attnx.errors import CaptureError
from attnx.linearize import ATTN_LRP, LRP, linearized_run, sink_shares, weights_fingerprint
from attnx.linearize.rules import linearize_mode
from attnx.linearize.sink import _by_input, _kept, _leaving, neutral_values
from tests import zoo
from tests.hooks.test_patching import state
from tests.linearize.linearized_by_hand import GRADIENT, linearized_gpt2

BIAS_FREE = ["llama", "mistral", "qwen3", "gemma2", "gemma3", "phi3", "t5"]
CAUSAL = ["gpt2", "llama", "mistral", "gpt_neo", "gpt_neox", "opt", "qwen3", "gemma3", "bloom"]


class InDoubles(TorchFunctionMode):
    """Models that compute norms and softmaxes in float32, whatever their weights are, compute in float64 here."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        double = {torch.float32: torch.float64}
        args = tuple(double.get(one, one) if isinstance(one, torch.dtype) else one for one in args)
        kwargs = {
            name: double.get(one, one) if isinstance(one, torch.dtype) else one for name, one in (kwargs or {}).items()
        }
        return torch.Tensor.double(*args) if func is torch.Tensor.float else func(*args, **kwargs)


def made(name, dtype=torch.float64, implementation=None, biases=0.3):
    """A model of the zoo whose biases are not 0, as they are before training."""
    model = copy.deepcopy(zoo.model(name, implementation))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(biases * torch.randn(parameter.shape, generator=generator))
    return model.to(dtype)


def asked(model, name, rows=1, length=9):
    """(scores, entry): the last position's state along a fixed direction, of each row."""
    dtype = next(model.parameters()).dtype
    inputs = zoo.inputs(name, length)
    inputs = {key: one.to(dtype) if one.is_floating_point() else one for key, one in inputs.items()}
    inputs = {key: one.repeat(rows, *[1] * (one.ndim - 1)) for key, one in inputs.items()}
    pixels = inputs.get("pixel_values")
    if pixels is not None:
        pixels.requires_grad_()

    def scores():
        states = model(**inputs).last_hidden_state
        generator = torch.Generator().manual_seed(3)
        return states[:, -1] @ torch.randn(states.shape[-1], generator=generator).to(states)

    return scores, model.get_input_embeddings() if pixels is None else pixels


def run(model, name, path=LRP, rows=1, **how):
    scores, entry = asked(model, name, rows)
    return linearized_run(model, scores, path, entry=entry, **how)


@pytest.mark.parametrize("name", zoo.FAMILIES)
@pytest.mark.parametrize(("dtype", "slack"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_positions_and_biases_add_up_to_the_score(name, dtype, slack):
    model = made(name, dtype)
    with InDoubles() if dtype == torch.float64 else torch.no_grad():
        found = run(model, name)
    parts = found.entry.relevance
    size = float(parts.abs().sum()) + abs(found.constants) + float(found.scores.abs())
    assert abs(float(parts.sum()) + found.constants - float(found.scores)) < slack * size


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_without_biases_every_level_holds_the_whole_score(name):
    model = made(name)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bias") and "relative" not in key:
                parameter.zero_()
    with InDoubles():
        found = run(model, name, layers=True)
    assert len(found.layers) == 3
    for level in found.layers:
        torch.testing.assert_close(level.relevance.sum(1), found.scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen3", "vit", "opt"])
@pytest.mark.parametrize("path", [LRP, ATTN_LRP, GRADIENT], ids=lambda path: path.name)
def test_attention_spelled_out_gives_what_the_fused_kernel_gives(name, path):
    models = [made(name, implementation=one) for one in ("sdpa", "eager")]
    with InDoubles():
        fused, eager = (run(model, name, path, ends=slice(None)) for model in models)
    torch.testing.assert_close(fused.entry.relevance, eager.entry.relevance, rtol=1e-10, atol=1e-12)
    assert len(fused.kernels) == len(eager.kernels) == 3
    for one, other in zip(fused.kernels, eager.kernels, strict=True):
        torch.testing.assert_close(one.outputs_gradient, other.outputs_gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_the_plain_path_is_the_models_own_gradient(name):
    model = made(name)
    scores, entry = asked(model, name)
    found = linearized_run(model, scores, GRADIENT, entry=entry)
    embedded = entry(zoo.inputs(name)["input_ids"]).detach().requires_grad_()
    states = model(inputs_embeds=embedded, attention_mask=zoo.inputs(name)["attention_mask"]).last_hidden_state
    direction = torch.randn(states.shape[-1], generator=torch.Generator().manual_seed(3)).to(states)
    (gradient,) = torch.autograd.grad(states[0, -1] @ direction, embedded)
    torch.testing.assert_close(found.entry.gradient, gradient, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def found():
    model = made("gpt2")
    ids = zoo.inputs("gpt2")["input_ids"]
    direction = torch.randn(32, generator=torch.Generator().manual_seed(3)).double()
    return run(model, "gpt2"), linearized_gpt2(model, ids, direction), model.wte(ids)[0].detach()


class TestAgainstTheFrozenModelByHand:
    """F is affine: what a token adds is F with its embedding alone, less F of nothing (DecompX without biases)."""

    def test_it_gives_the_score(self, found):
        run, frozen, embedded = found
        torch.testing.assert_close(frozen(embedded), run.scores[0], rtol=1e-12, atol=1e-12)

    def test_each_token_alone_gives_its_relevance(self, found):
        run, frozen, embedded = found
        nothing = frozen(torch.zeros_like(embedded))
        for place in range(len(embedded)):
            alone = torch.zeros_like(embedded)
            alone[place] = embedded[place]
            torch.testing.assert_close(frozen(alone) - nothing, run.entry.relevance[0, place], rtol=1e-9, atol=1e-11)

    def test_nothing_gives_the_biases(self, found):
        run, frozen, embedded = found
        assert float(frozen(torch.zeros_like(embedded))) == pytest.approx(run.constants, rel=1e-10)

    @pytest.mark.parametrize("factor", [0.5, 3.0, -1.0])
    def test_a_finite_step_changes_it_by_as_much(self, found, factor):
        run, frozen, embedded = found
        change = frozen(factor * embedded) - frozen(torch.zeros_like(embedded))
        torch.testing.assert_close(change, factor * run.entry.relevance.sum(), rtol=1e-9, atol=1e-11)


class OneLayer(nn.Module):
    """One block of attention, a final norm, a direction: the closed form can be written down."""

    def __init__(self, heads=2, width=8):
        super().__init__()
        torch.manual_seed(1)
        self.heads = heads
        self.words = nn.Embedding(20, width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm = nn.LayerNorm(width, bias=False)
        self.double()

    def split(self, states):
        return states.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def forward(self, ids):
        states = self.words(ids)
        query, key, value = (self.split(one(states)) for one in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.norm(states + self.out(mixed.transpose(-2, -3).flatten(-2)))


def test_one_layer_of_attention_has_its_closed_form():
    model, ids = OneLayer(), torch.tensor([[3, 7, 7, 1, 12]])
    direction = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = linearized_run(model, lambda: model(ids)[:, -1] @ direction, LRP, entry=model.words)
    with torch.no_grad():
        states = model.words(ids)[0]
        query, key, value = (model.split(one(states)) for one in (model.query, model.key, model.value))
        weights = (query[:, -1:] @ key.transpose(-1, -2) / 2).softmax(-1)[:, 0]
        projected = torch.einsum("hk,hkd,ohd->ko", weights, value, model.out.weight.unflatten(1, (2, 4)))
        result = states[-1] + projected.sum(0)
        parts = projected.clone()
        parts[-1] += states[-1]
        centred = parts - parts.mean(-1, keepdim=True)
        expected = centred * model.norm.weight / (result.var(unbiased=False) + model.norm.eps).sqrt() @ direction
    torch.testing.assert_close(found.entry.relevance[0], expected, rtol=1e-12, atol=1e-12)


class Moves(nn.Module):
    """A model with an operation that no rule covers, in a module with a name."""

    def __init__(self, operation):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(9, 4)
        self.head = Applied(operation)

    def forward(self, ids):
        return self.head(self.words(ids)).sum((-1, -2))


class Applied(nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def forward(self, states):
        return self.operation(states)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x * torch.sigmoid(1.7 * x),
        lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3.0)))),
        lambda x: F.relu(x).square(),
        lambda x: F.relu(x) ** 2,
        lambda x: F.relu(x, inplace=True) * 2,
        lambda x: 30 * torch.tanh(x / 30),
        lambda x: x.clamp(-0.5, 0.5),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
        lambda x: x / x.norm(dim=-1, keepdim=True),
        lambda x: x * (1.0 / x.pow(2).mean(-1, keepdim=True).sqrt()),
        lambda x: torch.ones(2, 3).to(x) @ x,
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) + 0.3,
        lambda x: F.rms_norm(x, (4,), None, 1e-6),
        lambda x: F.glu(x),
        lambda x: F.softplus(x) * x.flip(0),
        lambda x: F.silu(x) * (x @ torch.ones(4, 4).to(x)),
        lambda x: 1 - x,
        lambda x: torch.where(x > 0, x, torch.full_like(x, 0.2)),
        lambda x: torch.cat([torch.ones_like(x).detach(), x], -1),
        lambda x: x.masked_fill(x > 0.5, 2.0),
        lambda x: x[torch.where(x[..., 0] < 9)][None],
        lambda x: operator.iadd(2 * x, torch.full_like(x, 0.3)),
        lambda x: operator.isub(2 * x, torch.full_like(x, 0.3)),
        lambda x: operator.iadd(torch.full_like(x, 0.3), x),
    ],
)
def test_what_models_write_by_hand_adds_up(operation):
    model = Moves(operation).double()
    ids = torch.tensor([[1, 5, 2]])
    found = linearized_run(model, lambda: model(ids), LRP, entry=model.words)
    total = float(found.entry.relevance.sum()) + found.constants
    assert total == pytest.approx(float(found.scores), rel=1e-10, abs=1e-12)


def added_to_an_activation(x, add):
    states = add(F.silu(x), x.flip(-1))
    return states * x.roll(1, -1)


def changed_slice(x):
    states = 2 * x
    states[..., :2] *= x[..., 2:]
    return states


WEIGHT = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
SPELLED = {
    "product": (lambda x: (x @ WEIGHT) * x.flip(-1), lambda x: operator.imul(x @ WEIGHT, x.flip(-1))),
    "quotient": (lambda x: (x @ WEIGHT) / x.norm(), lambda x: operator.itruediv(x @ WEIGHT, x.norm())),
    "constant factor": (lambda x: WEIGHT[:3] * x, lambda x: operator.imul(WEIGHT[None, :3].clone(), x)),
    "gate": (lambda x: x * torch.sigmoid(x), lambda x: operator.imul(2 * x, torch.sigmoid(x)) / 2),
    "gated product": (lambda x: F.silu(x) * x.flip(-1), lambda x: operator.imul(F.silu(x), x.flip(-1))),
    "sum": (
        lambda x: added_to_an_activation(x, operator.add),
        lambda x: added_to_an_activation(x, operator.iadd),
    ),
    "slice": (lambda x: torch.cat([2 * x[..., :2] * x[..., 2:], 2 * x[..., 2:]], -1), changed_slice),
    "map": (lambda x: F.linear(x, WEIGHT, WEIGHT[0]) + 1.0, lambda x: F.linear(x, WEIGHT, WEIGHT[0]).add_(1.0)),
    "gated map": (
        lambda x: F.silu(x) * (F.linear(x, WEIGHT) + 1.0),
        lambda x: F.silu(x) * F.linear(x, WEIGHT).add_(1.0),
    ),
    "function": (lambda x: torch.tanh(2 * x), lambda x: (2 * x).tanh_()),
    "module": (lambda x: F.leaky_relu(2 * x, 0.1), lambda x: nn.LeakyReLU(0.1, inplace=True)(2 * x)),
    "mask": (lambda x: (2 * x).masked_fill(x > 0.5, 2.0), lambda x: (2 * x).masked_fill_(x > 0.5, 2.0)),
}


@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("path", [LRP, ATTN_LRP], ids=lambda path: path.name)
def test_what_is_changed_in_place_has_the_relevance_of_what_is_computed_anew(name, path):
    ids = torch.tensor([[1, 5, 2]])
    anew, in_place = (
        linearized_run(model, lambda model=model: model(ids), path, entry=model.words)
        for model in (Moves(operation).double() for operation in SPELLED[name])
    )
    torch.testing.assert_close(in_place.scores, anew.scores)
    torch.testing.assert_close(in_place.entry.relevance, anew.entry.relevance, rtol=1e-12, atol=1e-12)


def test_a_map_that_is_made_again_is_not_one_that_was_changed_since(monkeypatch):
    monkeypatch.setattr("attnx.linearize.autograd.LARGE", 0)
    test_what_is_changed_in_place_has_the_relevance_of_what_is_computed_anew("gated map", LRP)


def changed_after_use(x):
    factor = x @ WEIGHT
    product = F.silu(x) * factor
    factor += 1.0
    return product + factor


@pytest.mark.parametrize("path", [LRP, ATTN_LRP], ids=lambda path: path.name)
def test_a_factor_that_is_changed_after_its_product_is_refused(path):
    model = Moves(changed_after_use).double()
    with pytest.raises(CaptureError, match="changes in place what it has computed with before"):
        linearized_run(model, lambda: model(torch.tensor([[1, 5, 2]])), path, entry=model.words)


class Routed(nn.Module):
    """Experts in a loop: even and odd tokens have one each, a third is idle."""

    def __init__(self, experts):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(9, 4)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))[:experts]
        self.double()

    def forward(self, ids):
        states, result = self.words(ids), torch.zeros(*ids.shape, 4, dtype=torch.float64)
        for number, expert in enumerate(self.experts):
            result[ids % 2 == number] = expert(states[ids % 2 == number])
        return result.sum((1, 2))


def test_an_expert_without_tokens_adds_nothing():
    ids = torch.tensor([[1, 4, 2]])
    busy, idle = (
        linearized_run(model, lambda model=model: model(ids), LRP, entry=model.words)
        for model in (Routed(2), Routed(3))
    )
    assert torch.equal(idle.entry.relevance, busy.entry.relevance)
    assert idle.constants == busy.constants


class PositionFirst(nn.Module):
    """Length × batch × width within, as XLNet; how much a position counts is known."""

    def __init__(self, width=4):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.map = nn.Embedding(9, width), nn.Linear(width, 1)
        self.double()

    def forward(self, ids):
        states = self.words(ids.transpose(0, 1).contiguous())
        return (self.map(states)[..., 0] * torch.arange(1.0, len(states) + 1).to(states)[:, None]).sum(0)


@pytest.mark.parametrize(
    "ids",
    [[[1, 5, 2]], [[1, 5, 2], [3, 3, 8]], [[1, 5, 2], [3, 3, 8], [7, 4, 2]], [[1, 5, 2], [5, 3, 8], [2, 8, 2]]],
    ids=["one", "two", "as many as positions", "the same in both directions"],
)
def test_a_model_that_has_positions_first_is_read_by_input_and_position(ids):
    model, ids = PositionFirst(), torch.tensor(ids)
    found = linearized_run(model, lambda: model(ids), LRP, entry=model.words)
    expected = (model.words(ids) @ model.map.weight[0]) * torch.arange(1, 4)
    torch.testing.assert_close(found.entry.relevance, expected.detach(), rtol=1e-12, atol=1e-12)


class TwoTables(nn.Module):
    """What a token says stands in two tables; what its place says, in a third, is a constant."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.more, self.places = nn.Embedding(9, 4), nn.Embedding(9, 3), nn.Embedding(9, 4)
        self.up, self.head = nn.Linear(3, 4), nn.Linear(4, 1)
        self.double()

    def forward(self, ids):
        known = torch.where(ids < 7, ids, torch.zeros_like(ids))
        states = self.words(ids) + self.up(self.more(known.view(-1)).view(*ids.shape, 3))
        return self.head(states + self.places(torch.arange(ids.shape[1])))[..., 0].sum(1)


def test_every_table_in_which_ids_are_looked_up_is_the_tokens():
    model, ids = TwoTables(), torch.tensor([[0, 1, 2, 8], [5, 5, 8, 1]])
    found = linearized_run(model, lambda: model(ids), LRP, entry=model.words)
    with torch.no_grad():
        said = model.words(ids) + model.more(ids * (ids < 7)) @ model.up.weight.T
        places = model.places.weight[:4] @ model.head.weight[0]
        biases = 8 * (model.up.bias @ model.head.weight[0] + model.head.bias) + 2 * places.sum()
    torch.testing.assert_close(found.entry.relevance, said @ model.head.weight[0], rtol=1e-12, atol=1e-12)
    assert found.constants == pytest.approx(float(biases), rel=1e-10)


def test_an_operation_that_is_not_covered_is_named_with_its_module():
    model = Moves(lambda x: torch.logcumsumexp(x, -1))
    with pytest.raises(CaptureError, match="logcumsumexp in head is not covered"):
        linearized_run(model, lambda: model(torch.tensor([[1, 5, 2]])), LRP, entry=model.words)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states):
        return states.flip(-1).cumsum(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_a_function_of_the_models_own_that_is_no_activation_is_refused():
    model = Moves(Squared.apply)
    with pytest.raises(CaptureError, match="autograd function of its own, Squared"):
        linearized_run(model, lambda: model(torch.tensor([[1, 5, 2]])) * 2, LRP, entry=model.words)


def test_kernels_without_gradients_are_refused_with_what_to_do():
    model = made("llama")
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(CaptureError, match="attn_implementation='sdpa'"):
        run(model, "llama")


@pytest.mark.parametrize("name", ["llama", "falcon"])
def test_no_map_of_all_positions_is_held(name):
    """Of what autograd keeps nothing has two axes of positions, but for a mask that the model made once for all."""
    length, shapes = 37, []
    model = made("llama") if name == "llama" else falcon()
    ids = torch.randint(5, 100, (1, length), generator=torch.Generator().manual_seed(0))

    def noted(tensor):
        shapes.append(tuple(tensor.shape))
        return tensor

    def scores():
        return model(input_ids=ids).last_hidden_state[:, -1, 0]

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda kept: kept):
        linearized_run(model, scores, LRP, entry=model.get_input_embeddings())
    assert shapes
    assert not [shape for shape in shapes if shape.count(length) > 1 and shape != (1, 1, length, length)]


def falcon():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = hf.FalconConfig(vocab_size=120, multi_query=True, bos_token_id=1, eos_token_id=1, **sizes)
    return hf.FalconModel._from_config(config, attn_implementation="sdpa").eval().double()


GROUPED = zoo.WIDTH | zoo.GROUPED | {"vocab_size": 120}
EXPERTS = GROUPED | {"head_dim": 8, "num_local_experts": 4}
RARE = {
    "experts and their router": lambda: hf.MixtralModel(hf.MixtralConfig(**EXPERTS)),
    "sinks, clamps and constants in experts": lambda: hf.GptOssModel(hf.GptOssConfig(**EXPERTS)),
    "squared ReLU, 1 + weight": lambda: hf.NemotronModel(hf.NemotronConfig(**GROUPED)),
    "norms on the branch": lambda: hf.Olmo2Model(hf.Olmo2Config(**GROUPED)),
    "parallel blocks, one value head": lambda: falcon().float(),
    "a residual that is scaled": lambda: hf.GraniteModel(hf.GraniteConfig(residual_multiplier=0.3, **GROUPED)),
}


@pytest.mark.parametrize("name", RARE)
def test_rarer_ways_to_build_a_model_add_up(name):
    torch.manual_seed(0)
    model = RARE[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter)) if parameter.ndim == 1 else parameter.mul_(4)
    scores, entry = asked(model, "llama", rows=2)
    found = linearized_run(model, scores, LRP, entry=entry, ends=slice(0, 1))
    parts = found.entry.relevance
    size = float(parts.abs().sum()) + abs(found.constants) + float(found.scores.abs().sum())
    assert abs(float(parts.sum()) + found.constants - float(found.scores.sum())) < 1e-5 * size
    assert sink_shares(model, entry, found.kernels, 2) is not None


@pytest.mark.parametrize("name", ["llama", "gemma3", "phi3", "t5"])
def test_what_is_made_again_on_the_way_back_is_what_was_there(name, monkeypatch):
    model = made(name)
    kept = run(model, name).entry.relevance
    monkeypatch.setattr("attnx.linearize.autograd.LARGE", 0)
    assert torch.equal(run(model, name).entry.relevance, kept)


class TestSink:
    @pytest.mark.parametrize("name", BIAS_FREE[:-1])
    def test_all_that_the_first_position_gives_leaves_through_its_values(self, name):
        model = made(name)
        with InDoubles():
            found = run(model, name, ends=slice(0, 1))
        left = sum((_leaving(one, 1) * _by_input(one.values, 1)).sum() for one in found.kernels)
        assert float(left) == pytest.approx(float(found.entry.relevance[0, 0]), rel=1e-8, abs=1e-10)

    @pytest.mark.parametrize("name", CAUSAL)
    def test_decoders_have_one(self, name):
        model = made(name)
        found = run(model, name, ends=slice(0, 1), rows=2)
        shares = sink_shares(model, model.get_input_embeddings(), found.kernels, 2)
        assert shares[0] == pytest.approx(shares[1])

    @pytest.mark.parametrize("name", ["bert", "t5", "modernbert"])
    def test_encoders_have_none(self, name):
        model = made(name)
        found = run(model, name, ends=slice(0, 1))
        assert sink_shares(model, model.get_input_embeddings(), found.kernels, 1) is None

    def test_a_summand_is_not_taken_for_another_that_had_its_place_in_memory(self):
        model = made("llama")
        mode = linearize_mode(model, LRP, model.embed_tokens)
        result, entry = 2 * torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        mode.with_constant(result, torch.ones(3))
        mode._summands._values[id(entry)] = mode._summands._values.pop(id(result))
        mode.count_as_input(entry)
        result.sum().backward()
        assert mode.constants.total == 3

    def test_a_neutral_first_token_is_all_sink(self):
        """Where every token has the same embedding, what the first gives is what any would give."""
        model = made("llama")
        with torch.no_grad():
            model.embed_tokens.weight[:] = model.embed_tokens.weight[7]
        with InDoubles():
            found = run(model, "llama", ends=slice(0, 1))
            shares = sink_shares(model, model.embed_tokens, found.kernels, 1)
        assert float(shares) == pytest.approx(float(found.entry.relevance[0, 0]), rel=1e-8)

    def test_neutral_values_are_kept_beside_the_model_and_computed_anew_for_other_weights(self):
        model = made("llama", torch.float32)
        first = neutral_values(model, model.embed_tokens)
        assert neutral_values(model, model.embed_tokens) is first
        with torch.no_grad():
            model.layers[0].self_attn.v_proj.weight.data.mul_(2)
        torch.testing.assert_close(neutral_values(model, model.embed_tokens)[0], 2 * first[0])
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        assert all(key is not None for key in _kept)


class Interrupted(nn.Module):
    def __init__(self, inner, error):
        super().__init__()
        self.inner, self.error = inner, error

    def forward(self, *args, **kwargs):
        raise self.error


@pytest.mark.parametrize(
    "error", [None, RuntimeError("broken"), KeyboardInterrupt()], ids=["success", "error", "ctrl-c"]
)
@pytest.mark.parametrize("train", [False, True])
def test_the_model_is_left_bit_by_bit_as_it_was(error, train):
    model = made("gpt2", torch.float32)
    model.train(train)
    model.h[1].eval()
    next(model.parameters()).requires_grad_(False)
    if error is not None:
        model.h[2].mlp = Interrupted(model.h[2].mlp, error)
    weights = [parameter.clone() for parameter in model.parameters()]
    before, numbers = state(model), torch.get_rng_state()
    scores, entry = asked(model, "gpt2")
    if error is None:
        linearized_run(model, scores, LRP, entry=entry, ends=slice(0, 1), layers=True)
        neutral_values(model, entry)
    else:
        with pytest.raises(type(error)):
            linearized_run(model, scores, LRP, entry=entry, layers=True)
    assert state(model) == before
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), weights, strict=True))


def test_two_threads_run_the_same_model():
    model = made("llama", torch.float32)
    before, alone = state(model), run(model, "llama", layers=True).entry.relevance
    found: dict[int, torch.Tensor] = {}

    def work(number):
        for _ in range(5):
            found[number] = run(model, "llama", ATTN_LRP if number % 2 else LRP, layers=True).entry.relevance

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    torch.testing.assert_close(found[0], alone)
    torch.testing.assert_close(found[2], alone)
    assert not torch.allclose(found[1], alone)
    assert state(model) == before


def test_it_works_in_inference_mode_and_without_gradients():
    model = made("bert", torch.float32)
    expected = run(model, "bert").entry.relevance
    with torch.no_grad():
        assert torch.equal(run(model, "bert").entry.relevance, expected)
    with torch.inference_mode():
        assert torch.equal(run(model, "bert").entry.relevance, expected)


def test_weights_that_are_wrappers_are_compared_by_what_they_wrap():
    wrapper = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    module = nn.Module()
    stored = torch.ones(3, 3)
    module.weight = nn.Parameter(wrapper(stored, torch.ones(3, 3)))
    before = weights_fingerprint(module)
    assert before == weights_fingerprint(module)
    stored.add_(1)
    assert None is not weights_fingerprint(module) != before


def test_weights_on_the_meta_device_cannot_be_compared():
    assert weights_fingerprint(nn.Linear(3, 3, device="meta")) is None


def test_a_plain_run_is_made_once_for_each_path_of_a_model():
    model, forwards, counts = made("bert", torch.float32), [], []
    model.register_forward_pre_hook(lambda *_: forwards.append(1))
    for path in (LRP, LRP, ATTN_LRP, LRP):
        forwards.clear()
        run(model, "bert", path)
        counts.append(len(forwards))
    assert counts == [2, 1, 2, 1]


def test_a_score_that_a_plain_run_does_not_give_is_refused():
    model, noise = made("bert", torch.float32), iter((1.0, 2.0))

    def change(module, args, output):
        output.last_hidden_state = output.last_hidden_state + next(noise)

    model.register_forward_hook(change)
    with pytest.raises(CaptureError, match=r"gave another score .*than in a plain run"):
        run(model, "bert")
