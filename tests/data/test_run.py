"""A run is read as it is needed, by attnx and by the tools that people have."""

import json
import re
from pathlib import Path

import pytest

import attnx
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.render.run_page import page
from tests import zoo
from tests.children import python

TEXTS = ["a witty film", "", "a dull film", "a witty and a dull film", "<script>alert(1)</script>"]
GOLD = ["LABEL_0", "LABEL_1", "LABEL_1", "LABEL_0", "LABEL_0"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = [{"text": text, "label": gold} for text, gold in zip(TEXTS, GOLD, strict=True)]
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = {"methods": ("rollout", "flow"), "references": ("gradient",), "shard_rows": 2, "progress": False}
    return attnx.explain_dataset(zoo.classifier(), zoo.wordpiece_tokenizer(), data, output=folder, **options)


def test_it_is_a_sequence_of_explanations(run):
    assert len(run) == 5
    assert [one.text for one in run] == [one for one in TEXTS if one]
    assert run[3].text == TEXTS[3]
    assert repr(run).endswith("5 rows, rollout, flow, gradient, complete)")
    with pytest.raises(IndexError, match="row 5 asked, the run has 5"):
        run[5]


def test_pandas_datasets_and_duckdb_read_the_folder(run):
    import pandas

    datasets = pytest.importorskip("datasets", reason="datasets is in the test extra: pip install 'attnx[test]'")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is in the test extra: pip install 'attnx[test]'")
    frame = pandas.read_parquet(run.place.name)  # the folder itself, its manifest and its lock included
    assert list(frame.row) == [0, 1, 2, 3, 4]
    assert list(frame.rollout[3]) == list(run[3]["rollout"][0])
    held = datasets.load_dataset("parquet", data_files=f"{run.place.name}/*.parquet", split="train")
    assert held["text"] == run.to_dataset()["text"] == TEXTS
    found = duckdb.sql(f"select row, unnest(tokens), unnest(flow) from '{run.place.name}/*.parquet' where row = 0")
    assert [one[1] for one in found.fetchall()] == list(run[0].tokens)


def test_the_files_tell_their_version_and_provenance(run):
    import pyarrow.parquet as parquet

    told = json.loads(parquet.read_schema(next(iter(run_files(run)))).metadata[b"attnx"])
    assert told["format"] == 1
    assert told["provenance"] == json.loads(json.dumps(run[0].provenance))


def run_files(run):
    from pathlib import Path

    return sorted(Path(run.place.name).glob("*.parquet"))


def test_columns_by_name(run):
    assert list(run.to_frame(["id", "gold"]).columns) == ["id", "gold"]
    with pytest.raises(ChoiceError, match=r"column 'gould' is not known; .* did you mean 'gold'"):
        run.to_frame(["gould"])


def test_the_summary_counts_every_row_once(run):
    summary = run.summary("rollout")
    assert summary.rows == 5
    assert summary.failed == 1
    assert sum(group.rows for group in summary.groups) == 4
    assert sum(group.wrong for group in summary.groups) == sum(group.rows for group in summary.disagreements)
    for group in summary.groups:
        assert sum(word.first for word in group.words) == group.rows
        assert sum(group.places) == pytest.approx(1)
        for word in group.words:
            assert all(word.text in run[example].text for example in word.examples)
    assert summary == type(summary).from_json(summary.to_json())
    assert "carries most in" in summary.to_text()
    assert run.summary().explainer == "rollout"
    with pytest.raises(ChoiceError, match="method 'flaw' is not known"):
        run.summary("flaw")


def test_the_page_holds_the_rows_and_runs_nothing_of_them(run, tmp_path):
    run.to_html(tmp_path / "run.html")
    written = (tmp_path / "run.html").read_text()
    assert "All rows are in this page." in written
    assert "<script>alert(1)" not in written
    held = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', written)[1])
    assert [one["row"] for one in held["rows"]] == [0, 1, 2, 3, 4]
    assert held["sorts"] == ["flow_saturation"]
    assert held["rows"][1]["error"].startswith("the text is empty")
    with pytest.raises(InputError, match=r"to_html takes a file that ends in .html"):
        run.to_html(tmp_path / "run.txt")


def test_a_page_that_would_be_too_large_has_a_sample_and_says_so(run, monkeypatch):
    monkeypatch.setattr(page, "LARGEST", 600)
    written = run.to_html()
    held = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', written)[1])
    assert 0 < len(held["rows"]) < 5
    assert f"This page has a sample of {len(held['rows'])} rows" in written


def test_what_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"there is no run in .*; attnx.explain_dataset"):
        attnx.Run.load(tmp_path / "nothing")
    (tmp_path / "_attnx.json").write_text("{")
    with pytest.raises(AttnxError, match="is no manifest that this attnx reads"):
        attnx.Run.load(tmp_path)


def test_a_damaged_part_is_named(run, tmp_path):
    import shutil

    shutil.copytree(run.place.name, tmp_path / "run")
    part = next((tmp_path / "run").glob("part-000000*"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(
        AttnxError, match=r"part-000000.* is damaged .*delete it, and the same command runs its rows again"
    ):
        attnx.Run.load(tmp_path / "run")[0]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list the threads of a process")
def test_reading_a_run_starts_no_thread(run, children):
    """Those of Arrow may abort a process at its end that loaded torch before them."""
    code = """
        import os, sys, torch
        from attnx.data.arrow import parquet
        from attnx.data.source import source_of
        from attnx.data.columns import Columns
        from attnx.data.status import status_of

        parquet()
        before = len(os.listdir("/proc/self/task"))
        rows = status_of(sys.argv[1]).rows
        of_file = len(list(source_of(sys.argv[2], Columns()).rows))
        print(rows, of_file, len(os.listdir("/proc/self/task")) - before)
    """
    part = Path(run.place.name) / run.parts[0].name
    ended = children.run(python(code, run.place.name, str(part)))
    assert (ended.returncode, ended.stdout) == (0, f"{len(run)} {run.parts[0].rows} 0\n"), ended.stderr
