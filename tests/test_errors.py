"""What went wrong is told in one line, and never in none."""

from __future__ import annotations

import pytest

import attnx
from attnx.errors import InputError, first_line, in_a_line
from tests import verb_number_zoo as zoo


def test_the_first_line_is_told_or_the_kind():
    assert first_line(ValueError("\n too long\nat line 3")) == "too long"
    assert first_line(ValueError("\n")) == "ValueError"


def test_the_kind_is_told_of_what_is_not_of_attnx():
    assert in_a_line(InputError("give a text")) == "give a text"
    assert in_a_line(ValueError("too long")) == "ValueError: too long"
    assert in_a_line(ValueError()) == "ValueError"


def test_memory_that_is_used_up_is_not_the_inputs_fault():
    def full(*_):
        raise MemoryError

    model = zoo.model()
    handle = model.register_forward_pre_hook(full)
    try:
        with pytest.raises(MemoryError):
            attnx.explain(model, zoo.tokenizer(), "the key")
    finally:
        handle.remove()
