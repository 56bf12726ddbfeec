from __future__ import annotations

import pytest
import torch
from torch import nn

from attnx.errors import FileFormatError
from examples.training.verb_number import TrainingState


def stepped(steps: int) -> tuple[nn.Module, TrainingState]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    state = TrainingState.begin(model, weight_decay=0.1)
    walk(model, state, steps)
    return model, state


def walk(model: nn.Module, state: TrainingState, steps: int) -> None:
    for _ in range(steps):
        state.optimizer.zero_grad()
        model(torch.ones(2, 3) * state.step).sum().backward()
        for group in state.optimizer.param_groups:
            group["lr"] = 0.1
        state.optimizer.step()
        state.step += 1


def test_a_loaded_state_goes_on_bit_for_bit(tmp_path):
    model, state = stepped(3)
    state.save(tmp_path / "state")
    walk(model, state, 4)
    again, loaded = stepped(0)
    loaded.load(tmp_path / "state")
    assert loaded.step == 3
    walk(again, loaded, 4)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_vectors_do_not_decay():
    _, state = stepped(0)
    decay = {group["weight_decay"]: [p.dim() for p in group["params"]] for group in state.optimizer.param_groups}
    assert decay == {0.1: [2, 2], 0.0: [1, 1]}


def test_saving_leaves_one_file(tmp_path):
    _, state = stepped(1)
    state.save(tmp_path / "state")
    state.save(tmp_path / "state")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_state_of_another_model_is_an_error(tmp_path):
    _, state = stepped(1)
    state.save(tmp_path / "state")
    with pytest.raises(FileFormatError, match="not the state of this training"):
        TrainingState.begin(nn.Linear(2, 2), 0.0).load(tmp_path / "state")
