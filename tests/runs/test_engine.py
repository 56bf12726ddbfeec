"""Whoever runs the shards, in whatever order they end, the files are the same; and no row is run twice to begin."""

import pickle
import sys
from types import ModuleType, SimpleNamespace

import pytest

import attnx
from attnx.errors import ChoiceError, InputError
from attnx.pipeline import explain as pipeline
from attnx.runs import runner
from attnx.runs.folder import Manifest
from attnx.runs.task import changed, difference
from tests import verb_number_zoo
from tests.faults.kills import sentences
from tests.runs.test_measurement import Watched, contents

TEXTS = ["", *sentences(30), None]


def explained(folder, data=TEXTS, **options):
    options = {"methods": ("raw", "rollout"), "progress": False, **options}
    return attnx.explain_dataset(verb_number_zoo.model(), verb_number_zoo.tokenizer(), data, run_dir=folder, **options)


class Actor:
    """A worker of `StandIn`: what goes to it and comes back is pickled, and it works when it is waited for."""

    def __init__(self, kind, arguments):
        self.worker = kind(*arguments)
        self.run = SimpleNamespace(remote=lambda work: lambda: self._run(pickle.dumps(work)))

    def _run(self, work):
        return pickle.loads(pickle.dumps(self.worker.run(pickle.loads(work))))


class StandIn(ModuleType):
    """Ray's interface as far as attnx uses it, in one process; the work that was begun last ends first."""

    exceptions = SimpleNamespace(RayTaskError=ZeroDivisionError, RayActorError=ConnectionResetError)

    def __init__(self):
        super().__init__("ray")
        self.killed = 0

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 64.0}

    def remote(self, kind):
        return SimpleNamespace(options=lambda **how: SimpleNamespace(remote=lambda *given: Actor(kind, given)))

    def put(self, value):
        return value

    def get(self, reference):
        return reference() if callable(reference) else reference

    def wait(self, references, num_returns):
        return references[-1:], references[:-1]

    def kill(self, actor):
        self.killed += 1


@pytest.fixture
def ray(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


@pytest.mark.parametrize("size", [{"shard_rows": 4}, {}], ids=["fixed", "growing"])
def test_workers_whose_shards_end_in_another_order_write_the_same_files(tmp_path, ray, monkeypatch, size):
    monkeypatch.setattr(runner, "SECONDS", 1e9)
    whole = explained(tmp_path / "whole", **size)
    run = explained(tmp_path / "run", engine="ray", workers=3, **size)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    assert (run.complete, len(run), ray.killed) == (True, len(TEXTS), 3)
    assert run.manifest == whole.manifest


def test_a_worker_that_dies_again_and_again_is_named_by_its_rows(tmp_path, ray, monkeypatch):
    monkeypatch.setattr(Actor, "_run", lambda self, work: (_ for _ in ()).throw(ConnectionResetError("gone")))
    with pytest.raises(attnx.AttnxError, match=r"worker of rows 0 to 3 died again and again .*: gone"):
        explained(tmp_path / "run", engine="ray", workers=2, shard_rows=4)
    assert ray.killed == 2


def test_workers_that_a_cluster_cannot_hold_are_refused(tmp_path, ray):
    with pytest.raises(InputError, match=r"100 workers of .* threads were requested, but the cluster can hold"):
        explained(tmp_path / "run", engine="ray", workers=100)
    with pytest.raises(ChoiceError, match="workers must be at least 1, found 0"):
        explained(tmp_path / "run", engine="ray", workers=0)


@pytest.mark.parametrize("size", [{"shard_rows": 8}, {}], ids=["fixed", "growing"])
def test_no_row_is_explained_twice(tmp_path, monkeypatch, size):
    prepared = []
    real = pipeline.explain_prepared
    monkeypatch.setattr(
        pipeline, "explain_prepared", lambda *given, **how: prepared.extend(given[2]) or real(*given, **how)
    )
    texts = list(dict.fromkeys(text for text in sentences(40) if text))
    explained(tmp_path / "run", texts, **size)
    assert sorted(request.prepared.text for request in prepared) == sorted(texts)


@pytest.mark.parametrize("stopped", [0, 1, 3, 5])
def test_a_run_that_was_stopped_while_its_shards_grew_ends_with_the_same_files(tmp_path, monkeypatch, stopped):
    monkeypatch.setattr(runner, "SECONDS", 1e9)
    whole = explained(tmp_path / "whole")
    assert [part.rows for part in whole.parts] == [1, 1, 2, 4, 8, 16]
    with pytest.raises(KeyboardInterrupt):
        explained(tmp_path / "run", engine=Watched(stopped))
    assert explained(tmp_path / "run").to_table().equals(whole.to_table())
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("most", [1, 2, 8])
def test_the_shard_of_a_row_is_the_one_that_was_cut(most):
    manifest = Manifest("explanations", most, {}, "", sizes="grown")
    start, number = 0, 0
    while start < 40:
        rows = manifest.size_at(start)
        assert {manifest.shard_of(row) for row in range(start, start + rows)} == {number}
        start, number = start + rows, number + 1
    assert rows == most


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": {"c": [1, 2], "d": None}},
        {"a": None, "b": {"c": [1]}},
        {"b": 3, "more": {"x": {"y": 1}}},
        {"b": {}},
        {"a": {"b": 1}},
    ],
)
def test_facts_are_what_their_difference_makes_of_the_first(value):
    base = {"a": 1, "b": {"c": [1, 2], "d": {"e": 2}}}
    assert changed(base, difference(base, value)) == value
    assert difference(value, value) == {}
