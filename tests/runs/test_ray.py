"""Real Ray: the table of one process, whoever did it and whoever died meanwhile."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import attnx
from attnx.runs.engine import Ray
from attnx.runs.explanations import ExplanationTask
from tests.children import python
from tests.faults.kills import sentences
from tests.runs.test_measurement import TASKS
from tests.runs.test_measurement import contents as parts_of

pytest.importorskip("ray", reason="Ray is in the ray extra: pip install 'attnx[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX systems")]

TEXTS = sentences(96)
OPTIONS = {"methods": ("raw", "rollout"), "shard_rows": 8, "progress": False}


def explained(folder, **options):
    model, tokenizer = attnx.load_demo()
    return attnx.explain_dataset(model, tokenizer, TEXTS, run_dir=folder, **OPTIONS, **options)


def contents(folder):
    return {one.name: one.read_bytes() for one in Path(folder).glob("part-*")}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Ray keeps a file in the home, which may not be there, or not be ours to write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return explained(tmp_path_factory.mktemp("runs") / "whole")


def test_two_workers_give_the_files_of_one_process(whole, tmp_path):
    run = explained(tmp_path / "run", engine="ray", workers=2)
    assert run.complete
    assert contents(run.run_dir.name) == contents(whole.run_dir.name)


@pytest.fixture(scope="module")
def cluster():
    """Started once for all questions; a run takes the cluster that is there, and leaves it."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    assert ray.is_initialized()
    ray.shutdown()


@pytest.mark.parametrize("name", TASKS)
def test_two_workers_give_the_result_of_one_process_to_every_question(name, tmp_path, cluster):
    ask = TASKS[name]
    held = ask(shard_rows=2)
    assert ask(shard_rows=2, run_dir=tmp_path / "one") == held
    assert ask(shard_rows=2, run_dir=tmp_path / "two", engine="ray", workers=2) == held
    assert len(parts_of(tmp_path / "two")) > 2
    assert parts_of(tmp_path / "two") == parts_of(tmp_path / "one")


def test_a_worker_that_is_killed_costs_its_shard_alone(whole, tmp_path):
    """The first time that a worker meets its shard it is killed; it is started anew, and nothing else is done again."""
    killed = tmp_path / "killed"
    run = explained(tmp_path / "run", engine=_Killing(killed))
    assert killed.exists()
    assert contents(run.run_dir.name) == contents(whole.run_dir.name)


class _Killing:
    """Ray, with one worker that dies in the middle of shard 3."""

    def __init__(self, mark):
        self.mark = mark

    def run(self, job, given, work, on_row, on_done):
        task = _Deadly(job.task.options, str(self.mark))
        Ray(workers=2).run(replace(job, task=task), given, work, on_row, on_done)


@dataclass(frozen=True)
class _Deadly(ExplanationTask):
    mark: str = ""

    def stored(self, row, cells, columns):
        if row.number == 24 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().stored(row, cells, columns)


def test_a_driver_that_is_killed_goes_on(whole, tmp_path, children):
    folder = tmp_path / "run"
    code = f"""
        import attnx
        from tests.runs.test_ray import explained
        explained({str(folder)!r}, engine="ray", workers=2)
    """
    driver = children.start(python(code))
    children.wait_for(driver, lambda: len(contents(folder)) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {one.name: one.stat().st_mtime_ns for one in folder.glob("part-*")}
    run = explained(folder)
    assert contents(folder) == contents(whole.run_dir.name)
    assert run.complete
    assert {name: (folder / name).stat().st_mtime_ns for name in before} == before
