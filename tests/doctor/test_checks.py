"""Each line that can be printed as broken is made so here, most of them by a child that really dies."""

import os
import signal
from pathlib import Path

import pytest
import torch

import attnx
from attnx.doctor import checks as flow_code
from attnx.doctor import checks as machine
from attnx.doctor import checks as models
from attnx.doctor import checks as precision
from attnx.doctor.half_precision import LIMIT, Ended, run_child
from attnx.errors import AttnxError
from tests.doctor.test_half_precision import DIES, DIES_IN_BFLOAT16, DIES_UNLIMITED

posix = pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX systems")
KILL = f"import os; os.kill(os.getpid(), {int(signal.SIGILL) if os.name == 'posix' else 0})"


def lines(findings):
    return {one.name: one for one in findings}


@posix
@pytest.mark.parametrize(
    ("program", "advice"), [(DIES, "load such models with dtype=torch.float32"), (DIES_UNLIMITED, "set ONEDNN_MAX")]
)
def test_half_precision_that_kills_is_broken_and_says_what_was_tried(monkeypatch, program, advice):
    monkeypatch.delenv(next(iter(LIMIT)), raising=False)
    found = lines(precision.precision(program))
    for name in ("bfloat16 on the CPU", "float16 on the CPU"):
        assert (found[name].status, found[name].found) == ("broken", "killed by SIGILL")
        assert found[name].advice.startswith(advice)
        assert not found[name].stops_explain


@posix
def test_one_dtype_can_be_broken_alone():
    found = lines(precision.precision(DIES_IN_BFLOAT16))
    assert [one.status for one in found.values()] == ["broken", "fine"]


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (Ended((), "killed by SIGILL"), "killed by SIGILL"),
        (Ended((), "ImportError: numba needs NumPy 2.3 or less"), "numba needs NumPy"),
        (Ended(("1.0 0.5",), ""), "a flow of 1.0 0.75 came out as 1.0 0.5"),
        (Ended((), ""), "came out as nothing"),
    ],
)
def test_flow_that_dies_or_is_wrong_is_broken(ended, found):
    code = lines(flow_code.flow_code(lambda program: ended))["flow's machine code"]
    assert found in code.found
    assert code.stops_explain
    assert "--method rollout" in code.advice


@pytest.mark.slow
def test_flow_that_is_compiled_for_the_first_time_is_kept_from_then_on(monkeypatch, tmp_path):
    """In a place of its own, here and in the child: elsewhere the code may be kept already."""
    place = tmp_path / "attnx"
    moved = (
        "from pathlib import Path\n"
        "from attnx.methods.flow import compile as machine_code\n"
        f"machine_code.directories = lambda: [Path({str(place)!r})]\n"
    )
    monkeypatch.setattr(flow_code, "directories", lambda: [place])
    monkeypatch.setattr("attnx.methods.flow.compile.directories", lambda: [place])
    for expected in ("compiled now, and kept in", "kept in"):
        first, second = flow_code.flow_code(lambda program: run_child(moved + program))
        assert first.found.startswith(f"{expected} {place}")
        assert second.found == f"{place} can be written"


def test_where_nothing_can_be_written_the_code_and_the_cache_are_noted(monkeypatch, tmp_path):
    """A file stands where the directory would have to be made: that stops root as well, as no permission does."""
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "attnx"
    monkeypatch.setattr(flow_code, "directories", lambda: [place])
    monkeypatch.setattr("attnx.methods.flow.compile.directories", lambda: [place])
    code, cache = flow_code.flow_code(lambda program: Ended((flow_code.ANSWER,), ""))
    assert (code.status, code.found) == ("note", "compiles, and is kept nowhere")
    assert (cache.status, cache.found) == ("note", f"{place} cannot be written")
    assert "XDG_CACHE_HOME" in code.advice
    assert "XDG_CACHE_HOME" in cache.advice


SPOILED = {
    "text model": "import attnx\ndef load_demo():\n    {}\nattnx.load_demo = load_demo\n",
    "image model": (
        "import attnx.demo_models.planted_patch as task\ndef load_demo():\n    {}\ntask.load_demo = load_demo\n"
    ),
}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("spoiled", models.MODELS)
@pytest.mark.parametrize(
    ("how", "found"), [(KILL, "killed by SIGILL"), ("raise OSError('no weights')", "OSError: no weights")]
)
def test_a_model_that_does_not_run_is_broken_and_the_other_is_not(spoiled, how, found):
    def run(program, *names, **options):
        return run_child(SPOILED[spoiled].format(how) + program, *names, **options)

    for name, line in lines(models.models(run)).items():
        assert line.status == ("broken" if name == spoiled else "fine")
        assert line.stops_explain == (name == spoiled == "text model")
        assert name != spoiled or line.found == found


def test_the_models_give_the_answers_that_are_expected_of_them():
    for answer in models.MODELS.values():
        answer()


def test_another_answer_is_an_error_that_names_both():
    explanation = attnx.explain(*attnx.load_demo(), models.TEXT, methods="rollout")
    for expected in (("plural", 0.979, "cabinets", 0.335), ("singular", 0.9, "cabinets", 0.335)):
        with pytest.raises(AttnxError, match=r"it says singular \(0.98\), most from cabinets \(0.33\)"):
            models.check(explanation, *expected)


def test_little_memory_is_noted_and_unknown_memory_is_not(monkeypatch, tmp_path):
    file = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_MEMORY", file)
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path / "memory.max")
    assert lines(machine.machine())["memory"].found == "not known on this system"
    file.write_text("MemTotal:  8388608 kB\nMemAvailable: 4194304 kB\n")
    assert lines(machine.machine())["memory"].status == "fine"
    (tmp_path / "memory.max").write_text("max\n")
    assert lines(machine.machine())["memory"].found == "8.0 GB, 4.0 GB of it free"
    (tmp_path / "memory.max").write_text(str(2**30))
    assert lines(machine.machine())["memory"].status == "note"
    assert "this container may use 1.0 GB" in lines(machine.machine())["memory"].found


def test_accelerators_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a card")
    assert lines(machine.machine())["accelerators"].found.startswith("cuda:0 a card")


def test_a_child_that_cannot_be_started_or_says_nothing_is_told(monkeypatch):
    monkeypatch.setattr("attnx.doctor.half_precision.PATIENCE", 0.01)
    assert run_child("while True: pass").trouble == "no answer in 0 s"
    monkeypatch.setattr("sys.executable", str(Path("no", "such", "python")))
    assert run_child("pass").trouble.startswith("no process could be started")
