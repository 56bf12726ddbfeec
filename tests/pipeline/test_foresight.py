"""Long work says what it will take; quick work says nothing."""

import copy
import io
import re
from contextlib import redirect_stderr

import pytest
import torch

import attnx
from attnx import progress
from attnx.attribution import lrp as paths
from attnx.methods import flow_compile as machine_code
from attnx.pipeline import estimate as foresight
from attnx.pipeline.estimate import Foresight, attention_bytes
from tests import zoo


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (foresight, progress):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    def isatty(self):
        return True


def test_a_list_that_takes_long_says_so_once_when_its_first_inputs_are_through(clock, capsys):
    told = Foresight("comparing", [10.0] * 100)
    for number in range(100):
        clock.now += 1.0
        told.through(number)
    assert capsys.readouterr().err == (
        "attnx: comparing: 2 of 100 inputs took 2 seconds, the others take about 97 seconds\n"
    )


def test_work_that_is_soon_over_is_not_told(clock, capsys):
    told = Foresight("comparing", [10.0] * 3)
    for number in range(3):
        clock.now += 1.5
        told.through(number)
    assert capsys.readouterr().err == ""


def test_what_costs_more_counts_for_more(clock, capsys):
    told = Foresight("explaining", [1.0, 1.0, 8.0])
    for number in range(2):
        clock.now += 5.0
        told.through(number)
    assert "1 of 3 inputs took 5 seconds, the others take about 40 seconds" in capsys.readouterr().err


def test_the_inputs_of_a_batch_are_through_together(clock, capsys):
    told = Foresight("explaining", [1.0] * 60)
    for number in range(60):
        clock.now += 20.0 if number in (0, 20, 40) else 0.001
        told.through(number)
    assert capsys.readouterr().err == (
        "attnx: explaining: 20 of 60 inputs took 20 seconds, the others take about 20 seconds\n"
    )


def test_a_bar_comes_after_a_moment(clock):
    terminal = Terminal()
    with redirect_stderr(terminal), progress.progress_bar("explaining", 10, True) as shown:
        shown.update(1)
        shown.set_postfix_str("a word")
        assert terminal.getvalue() == ""
        clock.now = 3.0
        shown.update(1)
        assert "explaining" in terminal.getvalue()
        assert "2/10" in terminal.getvalue()


def test_no_bar_where_nobody_looks_or_wants_one(clock, capsys):
    for shown in (True, False):
        with progress.progress_bar("explaining", 10, shown) as bar:
            clock.now += 30
            bar.update(5)
    assert capsys.readouterr().err == ""


def test_a_generation_says_how_long_it_takes_where_nobody_looks(clock, capsys, monkeypatch):
    """Each token goes back through the model once, which here takes ten seconds; `progress=False` says nothing."""
    monkeypatch.setattr(progress, "_last_line", -100.0)

    def slow(*given, after=None, **options):
        def count(number):
            clock.now += 10.0 * number
            after(number)

        return linearized_runs(*given, after=count, **options)

    linearized_runs = paths.linearized_runs
    monkeypatch.setattr(paths, "linearized_runs", slow)
    given = (zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to")
    attnx.explain_generation(*given, continuation=" the cabinets", progress=False)
    assert capsys.readouterr().err == ""
    attnx.explain_generation(*given, continuation=" the cabinets")
    said = capsys.readouterr().err
    assert re.fullmatch(r"attnx: lrp: 1 of \d+ scores took 10 seconds, the others take about \d+ seconds\n", said)


def test_half_precision_on_a_cpu_is_told_once_with_the_line_that_changes_it(capsys):
    model = copy.deepcopy(zoo.model("bert")).to(torch.bfloat16)
    for _ in range(2):
        foresight.say_half_precision(model)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is in bfloat16 on a CPU" in said
    assert "model.float() changes it" in said
    foresight.say_half_precision(zoo.model("bert"))
    assert capsys.readouterr().err == ""


def test_memory_is_estimated_as_it_is_held():
    model, inputs = zoo.model("bert"), zoo.inputs("bert")
    attention = attnx.capture(model, **inputs)
    length = attention.length
    assert attention_bytes(model.config, [length], each_head=True) == attention.weights.nbytes
    merged = attnx.capture(model, head="mean", **inputs)
    assert attention_bytes(model.config, [length], each_head=False) == merged.weights.nbytes
    kept = attnx.capture(model, held=False, **inputs).layers
    each = sum(one.query.nbytes + one.key.nbytes for one in kept) // length
    assert attention_bytes(model.config, [4096], each_head=False) == 4096 * each


def test_much_memory_is_said_before_it_is_taken(capsys):
    foresight.say_memory(2**29)
    assert capsys.readouterr().err == ""
    foresight.say_memory(5 * 2**30)
    assert "about 5.0 GB of memory" in capsys.readouterr().err


def test_explain_of_a_list_shows_a_bar_unless_it_is_told_not_to(monkeypatch):
    shown = []

    class Noted(progress.progress_bar):
        def __init__(self, label, total, enabled, unit=" texts"):
            shown.append((label, total, enabled))
            super().__init__(label, total, False)

    monkeypatch.setattr("attnx.pipeline.explain.progress_bar", Noted)
    model, tokenizer = attnx.load_demo()
    texts = ["the keys to the cabinet", "the key to the cabinets"]
    attnx.explain(model, tokenizer, texts, methods="rollout")
    attnx.explain(model, tokenizer, texts, methods="rollout", progress=False)
    assert shown == [("explaining", 2, True), ("explaining", 2, False)]


def test_an_option_that_is_no_number_is_left_to_the_reference_itself():
    assert foresight._cost("integrated_gradients", 9, {"steps": 8}) == 18
    assert foresight._cost("integrated_gradients", 9, {"steps": "many"}) == 0


def test_the_first_flow_on_a_machine_says_that_it_is_compiled(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(machine_code, "directories", lambda: iter(()))
    monkeypatch.setattr(machine_code, "_compile", lambda: ("", None, lambda *given: 0.0))
    with redirect_stderr(terminal):
        machine_code._search.__wrapped__()
    assert "flow is compiled for this processor, once" in terminal.getvalue()
