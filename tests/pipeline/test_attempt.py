"""What nobody insists on is left out with its reason, and by one rule wherever it is tried."""

from __future__ import annotations

import pytest
import torch

import attnx
from attnx.attribution import REFERENCES
from attnx.attribution.base import Reference
from attnx.errors import CaptureError, InputError
from attnx.pipeline import Postponed, Refused, attempt
from tests import verb_number_zoo as zoo


def doubled(numbers):
    if 3 in numbers:
        raise ValueError("three is not doubled\nand more of it")
    return [2 * one for one in numbers]


def test_what_works_together_is_run_once():
    runs = []
    assert attempt([1, 2], lambda some: runs.append(some) or doubled(some)) == [2, 4]
    assert runs == [[1, 2]]
    assert attempt([], doubled) == []


def test_one_is_to_blame_and_the_others_are_not():
    assert attempt([1, 3, 4], doubled) == [2, Refused("ValueError: three is not doubled"), 8]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InputError("not on this model; use another"), "not on this model; use another"),
        (RuntimeError(), "RuntimeError"),
        (KeyError("weight"), "KeyError: 'weight'"),
    ],
)
def test_a_reason_is_never_empty_and_names_what_is_not_of_attnx(error, reason):
    def fail(some):
        raise error

    assert attempt([1], fail) == [Refused(reason)]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_nobody_is_to_blame_for_memory_or_an_interruption(error):
    def fail(some):
        raise error

    with pytest.raises(error):
        attempt([1, 2], fail)


SHORTAGES = [
    MemoryError("no room"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    ),
]


@pytest.mark.parametrize("error", SHORTAGES)
def test_where_memory_is_short_each_is_tried_alone_and_then_postponed(error):
    def run(some):
        if len(some) > 1 or 3 in some:
            raise CaptureError("the model refused the input") from error
        return [2 * one for one in some]

    with pytest.raises(CaptureError):
        attempt([1, 3, 4], run)
    assert attempt([1, 4], run) == [2, 8]
    assert attempt([1, 3, 4], run, postpone=True) == [2, Postponed("the model refused the input"), 8]


def failing(error):
    def measure(*_, **__):
        raise error

    return measure


@pytest.mark.parametrize("error", [RuntimeError(), RuntimeError("\n")])
def test_explain_says_the_kind_of_an_error_without_words(monkeypatch, error):
    monkeypatch.setattr("attnx.attribution.measure_references", failing(error))
    assert attnx.explain(zoo.model(), zoo.tokenizer(), "the key").notes[-1] == "lrp was left out: RuntimeError"


def test_recommend_leaves_out_what_fails_in_any_way():
    REFERENCES.add("broken", Reference("broken", failing(RuntimeError("no kernel for this"))))
    try:
        one = attnx.recommend(zoo.model(), zoo.tokenizer(), ["the key", "keys"], methods="raw", random=1)
    finally:
        REFERENCES.remove("broken")
    assert one.left_out["broken"] == "RuntimeError: no kernel for this"
