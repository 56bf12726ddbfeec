"""What linear maps and attention hand back is torch's own gradient, of fewer products."""

import pytest
import torch
import torch.nn.functional as F

from attnx.linearize import LRP, linearized_run, linearized_runs
from attnx.linearize import autograd as carried
from tests import zoo
from tests.linearize.test_linearized_run import InDoubles, made

RANDOM = torch.Generator().manual_seed(4)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=RANDOM, dtype=dtype)


@pytest.fixture
def multiplied(monkeypatch):
    """How many rows each product had."""
    rows, plain = [], carried._product

    def product(taken, weight):
        rows.append(len(taken))
        return plain(taken, weight)

    monkeypatch.setattr(carried, "_product", product)
    return rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("carrying", "expected"),
    [(slice(0, 7), 7), (slice(0, 4), 4), (slice(5, 6), 1), (slice(0, 0), 7)],
    ids=["all", "first rows", "one row", "none"],
)
def test_rows_that_carry_nothing_need_no_product(dtype, carrying, expected, multiplied):
    states, weight = random(1, 7, 5, dtype=dtype).requires_grad_(), random(3, 5, dtype=dtype)
    slope = torch.zeros(1, 7, 3, dtype=dtype)
    slope[:, carrying] = random(1, carrying.stop - carrying.start, 3, dtype=dtype)
    result = carried.linear_map(states, weight, lambda: F.linear(states.detach(), weight))
    torch.testing.assert_close(result, F.linear(states, weight), rtol=0, atol=0)
    (found,) = torch.autograd.grad(result, states, slope)
    torch.testing.assert_close(found, torch.autograd.grad(F.linear(states, weight), states, slope)[0])
    assert multiplied == [expected]


def test_a_row_that_begins_with_0_is_no_row_of_zeros(multiplied):
    states, weight = random(1, 4, 5).requires_grad_(), random(2, 5)
    slope = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)
    (found,) = torch.autograd.grad(
        carried.linear_map(states, weight, lambda: states.detach() @ weight.T), states, slope
    )
    torch.testing.assert_close(found, slope @ weight)
    assert multiplied == [4]


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"mask": True}, {"scale": 0.3}], ids=str)
def test_values_get_what_the_kernel_gives_them(options, groups, repeated):
    query, key, values = random(2, 4, 6, 3), random(2, groups, 6, 3), random(2, groups, 6, 3).requires_grad_()
    options = dict(options)
    if options.pop("mask", False):
        options["attn_mask"] = torch.ones(6, 6, dtype=torch.bool).tril()
    plain = F.scaled_dot_product_attention(query, key, values, enable_gqa=True, **options)
    slopes = [random(2, 4, 6, 3) for _ in range(2)]
    expected = [torch.autograd.grad(plain, values, slope, retain_graph=True)[0] for slope in slopes]

    from attnx.linearize.rules import _weights

    given, calls = {"query": query, "key": key, **options}, []
    mixed = carried.mix_values(values, lambda: calls.append(1) or _weights(given), plain.detach, repeated=repeated)
    found = [torch.autograd.grad(mixed, values, slope, retain_graph=True)[0] for slope in slopes]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert len(calls) == (1 if repeated else 2)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "opt", "gemma3", "bloom", "phi3", "bert", "t5"])
def test_several_ways_back_are_those_of_runs_of_their_own(name):
    model = made(name)
    model.config.use_cache = False
    ids, entry = zoo.inputs(name, 9), model.get_input_embeddings()

    def scores(*places):
        states = model(**ids).last_hidden_state
        direction = torch.linspace(-1, 1, states.shape[-1]).to(states)
        return [(states[0, place] @ direction)[None] for place in places]

    with InDoubles():
        together = linearized_runs(model, lambda: scores(3, 8, 5), LRP, entry=entry, ends=slice(0, 1))
        for row, place in enumerate((3, 8, 5)):
            alone = linearized_run(model, lambda place=place: scores(place)[0], LRP, entry=entry, ends=slice(0, 1))
            torch.testing.assert_close(together.entry.relevance[row], alone.entry.relevance[0], rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(together.scores[row], alone.scores[0])


def test_a_score_of_a_causal_model_costs_products_of_no_later_position(multiplied):
    model = made("llama")
    ids, entry = zoo.inputs("llama", 9), model.get_input_embeddings()
    with InDoubles():
        linearized_run(model, lambda: model(**ids).last_hidden_state[:, 3].sum(-1), LRP, entry=entry)
    # Gate, up, down, output and values of three levels: above the last attention the score stands at one position.
    assert sorted(multiplied) == [1, 1, 1, 1] + [4] * 11
