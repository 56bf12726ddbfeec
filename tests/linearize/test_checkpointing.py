"""Blocks run again on the way back give what a run gives that keeps everything."""

import pytest
import torch
from torch import nn

from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, Case
from attnx.linearize import ATTN_LRP, LRP, linearized_run
from attnx.linearize import checkpointing as replay
from attnx.targets import Target
from tests import zoo
from tests.hooks.test_patching import state
from tests.linearize.linearized_by_hand import GRADIENT
from tests.linearize.test_linearized_run import InDoubles, asked, made

NESTED = ("t5", "albert")
"""Their blocks have lists of blocks within."""


def both_ways(name, path, dtype=torch.float64):
    """The run that keeps everything, and the one that runs blocks again."""
    model = made(name, dtype)
    model.config.use_cache = False
    scores, entry = asked(model, name, rows=2)
    with InDoubles() if dtype == torch.float64 else torch.no_grad():
        return [
            linearized_run(
                model, scores, path, entry=entry, ends=slice(None), layers=name not in NESTED, checkpoint=again
            )
            for again in (False, True)
        ]


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_it_is_the_same_run(name):
    kept, again = both_ways(name, LRP)
    assert (kept.checkpoints, again.checkpoints, again.notes) == (0, 3, ())
    assert again.constants == pytest.approx(kept.constants, rel=1e-12, abs=1e-12)
    assert [one.module for one in again.layers] == [one.module for one in kept.layers]
    for one, other in zip((kept.entry, *kept.layers), (again.entry, *again.layers), strict=True):
        torch.testing.assert_close(other.relevance, one.relevance, rtol=1e-12, atol=1e-12)
    for one, other in zip(kept.kernels, again.kernels, strict=True):
        assert one.module == other.module
        for end in ("values", "outputs", "values_gradient", "outputs_gradient"):
            torch.testing.assert_close(getattr(other, end), getattr(one, end), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", [ATTN_LRP, GRADIENT], ids=lambda path: path.name)
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "bloom", "vit"])
def test_other_paths_are_the_same(name, path):
    kept, again = both_ways(name, path)
    assert again.checkpoints == 3
    torch.testing.assert_close(again.entry.relevance, kept.entry.relevance, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma3", "opt", "vit"])
def test_in_single_precision_too(name):
    kept, again = both_ways(name, LRP, torch.float32)
    torch.testing.assert_close(again.entry.relevance, kept.entry.relevance, rtol=1e-6, atol=1e-6)


def test_what_is_kept_does_not_grow_with_what_a_block_computes():
    model = made("llama")
    model.config.use_cache = False
    scores, entry = asked(model, "llama", length=40)
    sizes = {}
    for again in (False, True):
        kept = []

        def noted(tensor, kept=kept):
            kept.append(tensor.numel())
            return tensor

        def stopped(tensor, kept=kept, sizes=sizes, again=again):
            sizes.setdefault(again, sum(kept))  # before the first block is run again
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(noted, stopped):
            linearized_run(model, scores, LRP, entry=entry, checkpoint=again)
    assert sizes[True] < sizes[False] / 10


def test_it_is_chosen_where_much_would_be_kept(monkeypatch):
    model = made("llama")
    model.config.use_cache = False
    scores, entry = asked(model, "llama")
    assert linearized_run(model, scores, LRP, entry=entry).checkpoints == 0
    monkeypatch.setattr(replay, "KEPT_AT_MOST", 1_000)
    assert linearized_run(model, scores, LRP, entry=entry).checkpoints == 3


@pytest.mark.parametrize(
    ("maker", "tokenizer"),
    [(zoo.classifier, zoo.wordpiece_tokenizer), (zoo.causal_lm, zoo.bytelevel_tokenizer)],
    ids=["encoder", "decoder"],
)
def test_the_value_path_of_a_long_text_is_so_made_and_the_model_as_it_was(maker, tokenizer, monkeypatch):
    model = maker()
    prepared = adapter_for(model).prepare(model, tokenizer(), "the key to the")
    case = Case(prepared, Target(1, len(prepared.positions) - 1))
    (kept,) = REFERENCES["lrp"](model, tokenizer(), [case])
    before = state(model)
    monkeypatch.setattr(replay, "KEPT_AT_MOST", 1_000)
    (again,) = REFERENCES["lrp"](model, tokenizer(), [case])
    assert again.notes == ()
    assert again.scores == pytest.approx(kept.scores, rel=1e-5, abs=1e-7)
    assert again.facts["value"] == pytest.approx(kept.facts["value"])
    after = state(model)
    assert before.keys() == after.keys()
    assert not zoo.observed(model)


class Stack(nn.Module):
    """Blocks that do what is asked of them, in a list."""

    def __init__(self, block):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(9, 4)
        self.blocks = nn.ModuleList([block(), block()])
        self.double()

    def forward(self, ids):
        states = self.words(ids) * 2
        for block in self.blocks:
            states = block(states)
        return states.sum((-1, -2))


class InPlace(nn.Linear):
    def __init__(self):
        super().__init__(4, 4, bias=False)

    def forward(self, states):
        return super().forward(states.mul_(2))


class Counting(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
        self.calls = 0

    def forward(self, states):
        self.calls += 1
        return super().forward(states) * (1 + (self.calls == 3))


class Remembering(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, states, memory=None):
        return super().forward(states)


def run(model, **how):
    return linearized_run(model, lambda: model(torch.tensor([[1, 5, 2]])), LRP, entry=model.words, **how)


def test_a_block_that_changes_its_input_is_kept_and_a_note_says_so():
    found = run(Stack(InPlace), checkpoint=True)
    assert found.checkpoints == 0
    assert found.notes == ("InPlace changes its input in place, so all that backward needs was kept in memory",)


def test_a_block_that_gives_something_else_the_second_time_is_kept():
    model = Stack(Counting)
    model.blocks[0] = nn.Linear(4, 4).double()
    found = run(model, checkpoint=True)
    assert found.notes[0].startswith("Counting gave another output when it was run again")


def test_a_block_that_is_given_a_cache_is_kept():
    model = made("llama")
    scores, entry = asked(model, "llama")
    found = linearized_run(model, scores, LRP, entry=entry, checkpoint=True)
    assert found.notes[0].startswith("LlamaDecoderLayer is given a DynamicCache, which it may change")


@pytest.mark.parametrize("name", NESTED)
def test_blocks_within_blocks_are_kept_where_each_is_a_level(name):
    model = made(name)
    model.config.use_cache = False
    scores, entry = asked(model, name)
    found = linearized_run(model, scores, LRP, entry=entry, layers=True, checkpoint=True)
    assert "has blocks of its own, which are layers, too" in found.notes[0]
    assert len(found.layers) == 3


class Rotary(nn.Linear):
    """What it returns is a constant of the input, and it stands among the blocks (as in GraniteSWA)."""

    def __init__(self):
        super().__init__(4, 4)

    def forward(self, states):
        return torch.linspace(-1, 2, states.shape[1]).to(states)[:, None] * self.weight[0]


class Turned(Stack):
    def __init__(self):
        super().__init__(lambda: nn.Linear(4, 4))
        self.blocks.append(Rotary().double())

    def forward(self, ids):
        states = self.words(ids)
        turn = self.blocks[-1](states)
        for block in self.blocks[:-1]:
            states = block(states) * turn
        return states.sum((-1, -2))


@pytest.mark.parametrize("path", [LRP, ATTN_LRP], ids=lambda path: path.name)
def test_what_is_a_constant_of_the_input_is_one_in_a_block_that_is_run_again(path):
    model, ids = Turned(), torch.tensor([[1, 5, 2]])
    found = linearized_run(model, lambda: model(ids), path, entry=model.words, checkpoint=True)
    assert (found.checkpoints, found.notes) == (2, ())
    with torch.no_grad():  # an affine map, position by position
        states, turn = model.words(ids)[0], model.blocks[-1](model.words(ids))
        first, second = (one.weight for one in model.blocks[:-1])
        expected = (((states @ first.T * turn) @ second.T) * turn).sum(-1)
    torch.testing.assert_close(found.entry.relevance[0], expected, rtol=1e-12, atol=1e-12)


class Sometimes(nn.Linear):
    """A block whose `off` makes it a constant, unlike the others of its class."""

    off = False

    def __init__(self):
        super().__init__(4, 4)

    def forward(self, states):
        return super().forward(torch.zeros_like(states) if self.off else states)


def test_a_block_that_is_a_constant_unlike_others_of_its_class_is_kept():
    model, ids = Stack(Sometimes), torch.tensor([[1, 5, 2]])
    model.blocks[1].off = True

    def scores():
        states = model.words(ids)
        states = model.blocks[0](states) * 2
        return (states * model.blocks[1](states)).sum((-1, -2))

    kept, again = (
        linearized_run(model, scores, ATTN_LRP, entry=model.words, checkpoint=again) for again in (False, True)
    )
    assert again.notes[0].startswith("Sometimes returns a constant where others of its class do not")
    torch.testing.assert_close(again.entry.relevance, kept.entry.relevance)


def test_a_model_without_blocks_says_so():
    model = Stack(Remembering)
    model.blocks = nn.Sequential(*model.blocks)
    found = run(model, checkpoint=True)
    assert found.notes == ("no blocks can be told apart in the model, so all that backward needs was kept in memory",)
