"""Each check: what it reports as broken, most of it made by a child process that really dies."""

import os
import signal
from importlib import metadata
from pathlib import Path

import pytest
import torch

import attnx
from attnx import doctor
from attnx.doctor import DTYPES, LIMIT, NAMED, REQUIRED, ChildResult, Finding, half_precision_failures, run_child
from attnx.errors import AttnxError
from tests.doctor.test_half_precision import DIES, DIES_IN_BFLOAT16, DIES_UNLIMITED

posix = pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX systems")
KILL = f"import os; os.kill(os.getpid(), {int(signal.SIGILL) if os.name == 'posix' else 0})"


def by_name(findings):
    return {finding.name: finding for finding in findings}


def test_a_check_that_raises_is_a_broken_line_and_the_others_still_run():
    def broken_check():
        raise ImportError("no packaging")

    fine = Finding("cores", "ok", "2")
    failed, other = doctor.examine([broken_check, lambda: [fine]])
    assert (failed.name, failed.detail, other) == (
        "broken check",
        "the check failed: ImportError: no packaging",
        fine,
    )
    assert failed.stops_explain


@posix
@pytest.mark.parametrize(
    ("program", "advice", "statuses"),
    [
        (DIES, "load such models with dtype=torch.float32", ["broken", "broken"]),
        (DIES_UNLIMITED, "set ONEDNN_MAX", ["broken", "broken"]),
        (DIES_IN_BFLOAT16, "load such models", ["broken", "ok"]),
    ],
)
def test_half_precision_that_kills_is_broken_and_says_what_was_tried(monkeypatch, program, advice, statuses):
    monkeypatch.delenv(next(iter(LIMIT)), raising=False)
    findings = list(doctor.half_precision(program))
    assert [finding.name for finding in findings] == ["bfloat16 on the CPU", "float16 on the CPU"]
    assert [finding.status for finding in findings] == statuses
    for finding in findings:
        if finding.status == "broken":
            assert finding.detail == "killed by SIGILL"
            assert finding.advice.startswith(advice)
        assert not finding.stops_explain


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (ChildResult((), "killed by SIGILL"), "killed by SIGILL"),
        (ChildResult((), "ImportError: numba needs NumPy 2.3 or less"), "numba needs NumPy"),
        (ChildResult(("1.0 0.5",), ""), "a flow of 1.0 0.75 was computed as 1.0 0.5"),
        (ChildResult((), ""), "was computed as nothing"),
    ],
)
def test_flow_that_dies_or_is_wrong_is_broken(result, detail):
    code = by_name(doctor.flow_code(lambda program: result))["compiled code of flow"]
    assert detail in code.detail
    assert code.stops_explain
    assert "--method rollout" in code.advice


def cache_in(folder, monkeypatch):
    monkeypatch.setattr("attnx.methods.directories", lambda: [folder], raising=False)
    monkeypatch.setattr("attnx.methods.flow_compile.directories", lambda: [folder])


@pytest.mark.slow
def test_flow_that_is_compiled_for_the_first_time_is_cached_from_then_on(monkeypatch, tmp_path):
    """In a folder of its own, here and in the child: elsewhere the code may be cached already."""
    folder = tmp_path / "attnx"
    moved = (
        "from pathlib import Path\n"
        "from attnx.methods import flow_compile as machine_code\n"
        f"machine_code.directories = lambda: [Path({str(folder)!r})]\n"
    )
    cache_in(folder, monkeypatch)
    for expected in ("compiled now and cached in", "cached in"):
        code, cache = doctor.flow_code(lambda program: run_child(moved + program))
        assert code.detail.startswith(f"{expected} {folder}")
        assert cache.detail == f"{folder} is writable"


def test_where_nothing_can_be_written_the_code_and_the_cache_are_warnings(monkeypatch, tmp_path):
    """A file stands where the directory would have to be made: that stops root as well, as no permission does."""
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "attnx"
    cache_in(folder, monkeypatch)
    code, cache = doctor.flow_code(lambda program: ChildResult((doctor.FLOW_ANSWER,), ""))
    assert (code.status, code.detail) == ("warning", "compiles, but cannot be cached")
    assert (cache.status, cache.detail) == ("warning", f"{folder} cannot be written")
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
@pytest.mark.parametrize("spoiled", doctor.MODELS)
@pytest.mark.parametrize(
    ("how", "detail"), [(KILL, "killed by SIGILL"), ("raise OSError('no weights')", "OSError: no weights")]
)
def test_a_model_that_does_not_run_is_broken_and_the_other_is_not(spoiled, how, detail):
    def run(program, *names, **options):
        return run_child(SPOILED[spoiled].format(how) + program, *names, **options)

    for name, finding in by_name(doctor.models(run)).items():
        assert finding.status == ("broken" if name == spoiled else "ok")
        assert finding.stops_explain == (name == spoiled == "text model")
        assert name != spoiled or finding.detail == detail


def test_the_models_give_the_answers_that_are_expected_of_them():
    for answer in doctor.MODELS.values():
        answer()


def test_another_answer_is_an_error_that_names_both():
    explanation = attnx.explain(*attnx.load_demo(), doctor.TEXT, methods="rollout")
    for expected in (("plural", 0.979, "cabinets", 0.335), ("singular", 0.9, "cabinets", 0.335)):
        with pytest.raises(AttnxError, match=r"found singular \(0.98\) with cabinets \(0.33\)"):
            doctor.check(explanation, *expected)


def test_little_memory_is_a_warning_and_unknown_memory_is_not(monkeypatch, tmp_path):
    def memory():
        return by_name(doctor.machine())["memory"]

    file = tmp_path / "meminfo"
    monkeypatch.setattr(doctor, "_MEMORY", file)
    monkeypatch.setattr(doctor, "_CONTAINER", tmp_path / "memory.max")
    assert memory().detail == "not known on this system"
    file.write_text("MemTotal:  8388608 kB\nMemAvailable: 4194304 kB\n")
    assert memory().status == "ok"
    (tmp_path / "memory.max").write_text("max\n")
    assert memory().detail == "8.0 GB, 4.0 GB of it free"
    (tmp_path / "memory.max").write_text(str(2**30))
    assert memory().status == "warning"
    assert "this container may use 1.0 GB" in memory().detail


def test_accelerators_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a card")
    assert by_name(doctor.machine())["accelerators"].detail.startswith("cuda:0 a card")


def test_a_child_that_cannot_be_started_or_does_not_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "CHILD_TIMEOUT", 0.01)
    assert run_child("while True: pass").error == "no answer within 0 s"
    monkeypatch.setattr("sys.executable", str(Path("no", "such", "python")))
    assert run_child("pass").error.startswith("no process could be started")


@posix
def test_where_all_runs_there_is_one_child():
    runs = []

    def run(*arguments, **options):
        runs.append(arguments)
        return ChildResult(DTYPES, "")

    assert half_precision_failures(run=run) == ({}, {})
    assert runs == [(doctor.HALF_PRECISION_PROGRAM, *DTYPES)]


@posix
@pytest.mark.parametrize(
    ("program", "limited"),
    [(DIES_UNLIMITED, {}), (DIES, {"bfloat16": "killed by SIGILL", "float16": "killed by SIGILL"})],
)
def test_a_limit_is_tried_and_reported_where_it_helps(monkeypatch, program, limited):
    monkeypatch.delenv(next(iter(LIMIT)), raising=False)
    assert half_precision_failures(program) == (dict.fromkeys(DTYPES, "killed by SIGILL"), limited)


@pytest.mark.slow
def test_the_program_tries_the_dtypes_that_it_is_given():
    assert run_child(doctor.HALF_PRECISION_PROGRAM, "float32") == (("float32",), "")
    assert "no attribute 'float17'" in run_child(doctor.HALF_PRECISION_PROGRAM, "float17").error


@pytest.fixture
def installed(monkeypatch):
    """Other versions than the real ones; None for a package that is not installed."""
    changed = {}
    real = metadata.version

    def version(name):
        if changed.get(name, "") is None:
            raise metadata.PackageNotFoundError(name)
        return changed.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)
    return changed


def package(name):
    return by_name((*doctor.versions(), *doctor.optional_packages()))[name]


def test_here_every_version_is_ok():
    findings = list(doctor.versions())
    assert {finding.status for finding in findings} == {"ok"}
    assert [finding.name for finding in findings] == ["attnx", "Python", *NAMED, "other packages"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(("version", "detail"), [(None, "is not installed"), ("0.0.1", "0.0.1 is not >=")])
def test_a_named_package_that_is_missing_or_too_old_is_broken(installed, name, version, detail):
    installed[name] = version
    assert package(name).status == "broken"
    assert f"{name} {detail}" in package(name).detail
    assert package(name).advice == f"pip install --upgrade {name}"
    assert package(name).stops_explain == (name in REQUIRED) == (name != "captum")


@pytest.mark.parametrize(("name", "required"), [("tokenizers", True), ("scipy", False)])
def test_any_other_package_that_is_missing_is_broken(installed, name, required):
    installed[name] = None
    assert package("other packages").detail == f"{name} is not installed"
    assert package("other packages").stops_explain == required


def test_optional_packages_are_never_broken(installed):
    installed |= {"pandas": None, "datasets": "4.0", "bertviz": "1.4"}
    assert package("optional packages").status == "warning"
    assert package("optional packages").advice == "pip install pandas for to_frame()"
    installed["pandas"] = "3.0"
    assert package("optional packages").status == "ok"


def test_a_build_for_one_processor_and_a_prerelease_are_new_enough(installed):
    installed |= {"torch": "2.13.0+cpu", "transformers": "5.0.0rc1"}
    assert package("torch").status == package("transformers").status == "ok"
