"""Every task over many inputs is run by shards, in memory or in a folder, with the same result."""

from itertools import chain

import pytest

import attnx
from attnx.errors import ArgumentError, AttnxError, ChoiceError, InputError
from attnx.evaluation import compare as comparison
from attnx.evaluation import head_atlas as atlas
from attnx.paper import sentences, table1, table2, table3
from attnx.paper.subject import subject
from attnx.paper.tables import CORRECTED
from attnx.pronouns import Sentence
from attnx.pronouns import run as probe_pronouns
from attnx.runs import RunDir
from attnx.runs.engine import LocalEngine, run_shard
from attnx.runs.folder import existing_manifest, parts
from attnx.runs.runner import failed_rows, finished_cells, result_of
from tests import verb_number_zoo, zoo
from tests.faults import kills

pytestmark = pytest.mark.slow

TEXTS = [
    *("the key to the cabinets", "keys near it", "the author that the old teachers like near a river"),
    *("some boxes in it", "the teachers like a river", "the old key", "a river near the boxes in the river"),
]
FEW = {"methods": ("raw", "rollout", "gradient", "lrp")}
BOTH = {"methods": ("raw", "rollout"), "references": ("gradient", "lrp")}
COMPARED = {"methods": ("raw", "rollout"), "against": ("gradient", "lrp")}
NAMES = ("author", "Sara"), ("his", "her"), {"his": "author", "her": "Sara"}
MASKED = [
    Sentence(text, *NAMES, answer)
    for text, answer in (
        ("The author talked to Sara about [MASK] book", "Sara"),
        ("Sara said the film of the author was about [MASK] book", None),
        ("the author said [MASK] film was bad, Sara", "author"),
        ("the author said hello to Sara and [MASK] movie", "author"),
        ("Sara said the author was on [MASK] book", None),
    )
]


def ours():
    return verb_number_zoo.model(), verb_number_zoo.tokenizer()


def beginnings(count=7):
    return sentences.prepare(*ours(), *sentences.generated(count, 0, 1))


TASKS = {
    "comparison": lambda **kept: attnx.compare(*ours(), TEXTS, **COMPARED, progress=False, **kept),
    "atlas": lambda **kept: attnx.head_atlas(*ours(), TEXTS, against="gradient", progress=False, **kept),
    "faithfulness": lambda **kept: attnx.faithfulness(*ours(), TEXTS, **FEW, references=(), progress=False, **kept),
    "recommendation": lambda **kept: attnx.recommend(*ours(), TEXTS, **BOTH, random=2, progress=False, **kept),
    "truth": lambda **kept: attnx.benchmark(suites="subject", rows=7, **BOTH, progress=False, **kept),
    "pronouns": lambda **kept: probe_pronouns(
        zoo.masked_lm(), zoo.wordpiece_tokenizer(), MASKED, methods="rollout", batch_size=2, **kept
    ),
    "table": lambda **kept: table1(*ours(), beginnings(), **kept),
    "table 2": lambda **kept: table2(*ours(), beginnings(), **kept),
    "table 3": lambda **kept: table3(*ours(), beginnings(), protocols=[CORRECTED], **kept),
    "subject": lambda **kept: subject(*ours(), beginnings(), **kept),
}


def folder_of(folder):
    """Where the parts are: of the truth in a folder of its suite."""
    return folder / "subject" if (folder / "subject").is_dir() else folder


def contents(folder):
    return {one.name: one.read_bytes() for one in folder_of(folder).glob("part-*")}


class Watched(LocalEngine):
    """One process that remembers its job, and may stop after some shards."""

    def __init__(self, shards=None):
        self.shards = shards

    def run(self, job, given, work, on_row, on_done):
        self.job = job
        for number, item in enumerate(work):
            if number == self.shards:
                raise KeyboardInterrupt
            on_done(run_shard(job, given.model, given.processor, item, on_row))


@pytest.mark.parametrize("name", TASKS)
def test_a_folder_gives_what_memory_gives_and_a_stopped_run_goes_on_to_it(name, tmp_path):
    ask = TASKS[name]
    held = ask(shard_rows=3)
    assert ask(shard_rows=3, run_dir=tmp_path / "whole") == held
    with pytest.raises(KeyboardInterrupt):
        ask(shard_rows=3, run_dir=tmp_path / "stopped", engine=Watched(1))
    before = contents(tmp_path / "stopped")
    assert len(before) == 1
    assert ask(shard_rows=3, run_dir=tmp_path / "stopped") == held
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert contents(tmp_path / "stopped").items() > before.items()
    run_dir = RunDir.of(folder_of(tmp_path / "whole"))
    assert existing_manifest(run_dir).task == name.split()[0]
    with pytest.raises(InputError, match=f"holds a run of {name.split()[0]}; the same call gives its result again"):
        attnx.Run.load(run_dir.name)


@pytest.mark.parametrize("name", ["comparison", "atlas", "faithfulness", "recommendation"])
def test_parts_that_were_run_apart_merge_to_the_whole(name, tmp_path, monkeypatch):
    """Bit for bit: random orders hang on the text, and nothing but rows goes into the result."""
    engine = Watched()
    whole = TASKS[name](shard_rows=4, run_dir=tmp_path / "whole", engine=engine)
    for part, texts in {"one": TEXTS[:4], "other": TEXTS[4:]}.items():
        with monkeypatch.context() as patched:
            patched.setattr(f"{__name__}.TEXTS", texts)
            TASKS[name](shard_rows=4, run_dir=tmp_path / part)
    rows = chain.from_iterable(finished_cells(RunDir.of(tmp_path / part)) for part in ("one", "other"))
    assert result_of(engine.job.task, RunDir.of(tmp_path / "whole")) == whole
    assert engine.job.task.result(rows, {}) == whole


@pytest.mark.parametrize("name", ["comparison", "atlas"])
def test_explanations_merge_whatever_the_parts(name):
    """`of` all explanations is what the cells of any parts give."""
    options = {**FEW, "head": "all"} if name == "atlas" else FEW
    explained = attnx.explain(*ours(), TEXTS, **options)
    kind = {"comparison": attnx.Comparison, "atlas": attnx.HeadAtlas}[name]
    whole = kind.of(explained)
    room = {"comparison": comparison, "atlas": atlas}[name]
    parts = (
        [room.row_of(one, "spearman") for one in explained[first:last]] for first, last in ((0, 1), (1, 5), (5, 7))
    )
    merge = {"comparison": comparison.comparison_of_rows, "atlas": atlas.atlas_of_rows}[name]
    assert merge(chain.from_iterable(parts), "spearman") == whole


def test_rows_that_cannot_be_measured_are_left_out_and_noted(tmp_path):
    texts = [TEXTS[0], "", *TEXTS[1:4], "the key " * 200, 7]
    found = attnx.compare(*ours(), texts, **COMPARED, progress=False, run_dir=tmp_path / "run", shard_rows=3)
    assert found.texts == tuple(TEXTS[:4])
    notes = {note: count for note, count in found.notes.items() if note.startswith("left out: ")}
    assert sum(notes.values()) == 3
    assert any("empty" in note for note in notes)
    run_dir = RunDir.of(tmp_path / "run")
    assert len(list(failed_rows(run_dir, existing_manifest(run_dir), parts(run_dir).values()))) == 3
    assert "left out: the text is empty: give at least one word (1 besides these 4)" in found.to_text()
    with pytest.raises(InputError, match="empty"):
        attnx.compare(*ours(), texts, **COMPARED, progress=False)


def test_a_paper_table_notes_what_was_left_out(tmp_path):
    engine = Watched()
    whole = TASKS["table"](run_dir=tmp_path / "run", engine=engine)
    rows = list(finished_cells(RunDir.of(tmp_path / "run")))
    fewer = engine.job.task.result(rows[1:], {"it is too long; cut it": 1})
    assert fewer.count == whole.count - 1
    assert fewer.notes == {"left out: it is too long; cut it": 1}


def test_a_file_is_read_by_its_column_as_it_is_needed(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("sentence,label\n" + "".join(f"{text},x\n" for text in TEXTS))
    kept = {"run_dir": tmp_path / "run", "column": "sentence", "shard_rows": 7}
    assert attnx.compare(*ours(), path, **COMPARED, progress=False, **kept) == TASKS["comparison"]()


def test_other_settings_in_the_same_folder_are_an_error_that_names_them(tmp_path):
    TASKS["faithfulness"](run_dir=tmp_path / "run")
    with pytest.raises(InputError, match="holds another run: steps was 10 and is 3"):
        TASKS["faithfulness"](run_dir=tmp_path / "run", steps=3)
    with pytest.raises(InputError, match="it is a run of faithfulness, and comparison was requested"):
        TASKS["comparison"](run_dir=tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"engine": "ray"}, ChoiceError, "engine is for a run in a folder: give run_dir='run/', too"),
        ({"column": "text"}, ChoiceError, "column is for a run in a folder"),
        ({"shard_rows": 0}, InputError, "shard_rows must be at least 1"),
        ({"run_dir": "x", "target": ["singular"]}, ChoiceError, "target must be the same for all rows"),
        ({"run_dri": "x"}, ArgumentError, "run_dri"),
        ({"run_dir": "x", "truncat": True}, ArgumentError, "did you mean 'truncate'"),
        ({"run_dir": "x", "engine": "rya"}, ChoiceError, "did you mean 'ray'"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(options, error, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        TASKS["comparison"](**options)
    assert not list(tmp_path.iterdir())


def test_where_no_row_can_be_measured_the_first_reason_is_told(tmp_path):
    with pytest.raises(AttnxError, match=r"none of the first 2 rows can be explained; row 0: .*empty"):
        attnx.compare(*ours(), ["", ""], **COMPARED, progress=False, run_dir=tmp_path / "run")


@pytest.mark.skipif(not hasattr(kills.os, "fork"), reason="this system cannot fork")
def test_a_comparison_that_is_killed_goes_on(tmp_path):
    texts = [one for one in kills.sentences(60) if one]
    options = {**COMPARED, "shard_rows": 8, "progress": False}
    whole = attnx.compare(*ours(), texts, **options, run_dir=tmp_path / "whole")
    killed = 0
    for seconds in (0.05, 0.2, 0.4):
        killed += kills._killed(lambda: attnx.compare(*ours(), texts, **options, run_dir=tmp_path / "run"), seconds)
    assert killed
    assert attnx.compare(*ours(), texts, **options, run_dir=tmp_path / "run") == whole
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
