"""That looking on changes nothing is proven on a piece of a long input, where the model runs both alike."""

import pytest
import torch

from attnx.errors import CaptureError
from attnx.hooks import capture as capturing
from attnx.hooks import capture as piece
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import zoo


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    monkeypatch.setattr(piece, "PREFIX_LENGTH", 6)


@pytest.fixture
def lengths(monkeypatch):
    """Of each call of a model that is not proven yet."""
    monkeypatch.setattr(capturing, "_proven", set())
    seen = []
    called = capturing.called
    monkeypatch.setattr(
        capturing, "called", lambda model, given: seen.append(given["input_ids"].shape[1]) or called(model, given)
    )
    return seen


def test_a_long_input_is_proven_on_its_beginning(lengths):
    capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 13))
    assert lengths == [13, 6, 6]
    capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 14))
    assert lengths == [13, 6, 6, 14]


def test_a_short_input_and_several_are_proven_whole(lengths):
    capture(zoo.model("gpt2"), **zoo.inputs("gpt2", 11))
    assert lengths == [11, 11]
    capturing._proven.clear()
    inputs = {name: one.repeat(2, 1) for name, one in zoo.inputs("gpt2", 13).items()}
    capture_batch(zoo.model("gpt2"), inputs)
    assert lengths[2:] == [13, 13]


def test_a_language_model_answers_at_the_end_of_the_piece(lengths):
    found = capture_batch(zoo.causal_lm(), zoo.inputs("gpt2", 13), held=False, logits_at=[12])
    assert found.output.logits.shape[1] == 1
    assert lengths == [13, 6, 6]


def test_what_runs_otherwise_when_it_is_long_is_proven_whole(lengths, monkeypatch):
    monkeypatch.setattr(capturing, "same_run", lambda piece, whole: False)
    capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 13))
    assert lengths == [13, 6, 13]


def test_a_window_that_only_long_inputs_reach_is_another_way():
    whole, part = (capture(zoo.model("mistral"), held=False, **zoo.inputs("mistral", n)) for n in (13, 3))
    alike = capture(zoo.model("mistral"), held=False, **zoo.inputs("mistral", 12))
    assert piece.same_run(alike, whole)
    assert piece.same_run(part, whole) == (part.layers[0].mask.source is not None)


def test_a_model_that_answers_otherwise_each_time_is_found_out_on_a_piece(lengths):
    model = zoo.model("gpt2")
    noise = model.register_forward_hook(lambda module, args, out: out.last_hidden_state.add_(torch.rand(1)))
    try:
        with pytest.raises(CaptureError, match="while it was watched"):
            capture(model, held=False, **zoo.inputs("gpt2", 13))
    finally:
        noise.remove()
    assert lengths == [13, 6, 6]


def test_what_is_not_by_position_is_no_piece():
    ids = torch.zeros(1, 20, dtype=torch.long)
    assert piece.prefix_of({"input_ids": ids, "pixel_values": torch.zeros(1, 3, 4, 4)}) is None
    assert piece.prefix_of({"pixel_values": torch.zeros(1, 3, 4, 4)}) is None
    found = piece.prefix_of({"input_ids": ids, "attention_mask": ids, "use_cache": False})
    assert {name: getattr(one, "shape", one) for name, one in found.items()} == {
        "input_ids": (1, 6),
        "attention_mask": (1, 6),
        "use_cache": False,
    }
