"""A run is read as it is needed, by attnx and by the tools that people have."""

import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest

import attnx
from attnx.errors import AttnxError, ChoiceError, FileFormatError, InputError
from attnx.runs import view as page
from attnx.runs.folder import _checksum, content_digest
from tests import zoo
from tests.children import python

TEXTS = ["a witty film", "", "a dull film", "a witty and a dull film", "<script>alert(1)</script>"]
GOLD = ["LABEL_0", "LABEL_1", "LABEL_1", "LABEL_0", "LABEL_0"]
OPTIONS = {"methods": ("rollout", "flow"), "references": ("gradient",), "shard_rows": 2, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = [{"text": text, "label": gold} for text, gold in zip(TEXTS, GOLD, strict=True)]
    folder = tmp_path_factory.mktemp("runs") / "run"
    return attnx.explain_dataset(zoo.classifier(), zoo.wordpiece_tokenizer(), data, run_dir=folder, **OPTIONS)


def test_it_is_a_sequence_of_explanations(run):
    assert len(run) == 5
    assert [one.text for one in run] == [one for one in TEXTS if one]
    assert run[3].text == TEXTS[3]
    assert repr(run).endswith("5 rows, rollout, flow, gradient, complete)")
    with pytest.raises(IndexError, match="row 5 was requested, but the run has 5 rows"):
        run[5]


def test_pandas_datasets_and_duckdb_read_the_folder(run):
    import pandas

    datasets = pytest.importorskip("datasets", reason="datasets is in the test extra: pip install 'attnx[test]'")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is in the test extra: pip install 'attnx[test]'")
    frame = pandas.read_parquet(run.run_dir.name)  # the folder itself, its manifest and its lock included
    assert list(frame.row) == [0, 1, 2, 3, 4]
    assert list(frame.rollout[3]) == list(run[3]["rollout"][0])
    held = datasets.load_dataset("parquet", data_files=f"{run.run_dir.name}/*.parquet", split="train")
    assert held["text"] == run.to_dataset()["text"] == TEXTS
    found = duckdb.sql(f"select row, unnest(tokens), unnest(flow) from '{run.run_dir.name}/*.parquet' where row = 0")
    assert [one[1] for one in found.fetchall()] == list(run[0].tokens)


def test_the_files_tell_their_version_and_provenance(run):
    import pyarrow.parquet as parquet

    told = json.loads(parquet.read_schema(next(iter(run_files(run)))).metadata[b"attnx"])
    assert told["format"] == 2
    assert told["facts"]["provenance"] == json.loads(json.dumps(run[0].provenance))


def run_files(run):
    from pathlib import Path

    return sorted(Path(run.run_dir.name).glob("*.parquet"))


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
    assert "contributes most in" in summary.to_text()
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


def copied(run, folder):
    return Path(shutil.copytree(run.run_dir.name, folder / "run"))


def again(run, folder):
    data = [{"text": text, "label": gold} for text, gold in zip(TEXTS, GOLD, strict=True)]
    return attnx.explain_dataset(zoo.classifier(), zoo.wordpiece_tokenizer(), data, run_dir=folder, **OPTIONS)


@pytest.mark.parametrize(
    "damage",
    [
        lambda part, other: part.write_bytes(b""),
        lambda part, other: part.write_bytes(part.read_bytes()[:-100]),
        lambda part, other: shutil.copy(other, part),
        lambda part, other: (part.unlink(), other.rename(other.with_name(f"part-000001{other.name[11:]}"))),
        lambda part, other: part.rename(part.with_name(part.name.replace("-000002-", "-000003-"))),
    ],
    ids=["emptied", "cut", "overwritten by another part", "another part renamed", "with more rows in its name"],
)
def test_a_part_that_is_not_what_was_written_is_noticed_and_run_again(run, tmp_path, damage):
    folder = copied(run, tmp_path)
    other, part, _ = sorted(folder.glob("part-*"))
    damage(part, other)
    read = attnx.Run.load(folder)
    assert not read.complete
    with pytest.raises(FileFormatError, match=r"part-00000.* is damaged .*; the same command runs its rows again"):
        list(read)
    if other.exists():
        assert again(run, folder).to_table().equals(run.to_table())
        assert attnx.Run.load(folder).complete


def test_parts_have_page_checksums_that_other_readers_can_check(run):
    import pyarrow.parquet as parquet

    part = run_files(run)[0]
    changed = bytearray(part.read_bytes())
    column = parquet.ParquetFile(part).metadata.row_group(0).column(0)
    changed[column.dictionary_page_offset + column.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        parquet.ParquetFile(io.BytesIO(bytes(changed)), page_checksum_verification=True).read(use_threads=False)


def forged_manifest(folder, **changes):
    told = json.loads((folder / "_attnx.json").read_text())
    told = {**told, **changes}
    del told["kind"], told["sha256"]
    checksum = _checksum(told)
    (folder / "_attnx.json").write_text(json.dumps({"kind": "attnx run", **told, "sha256": checksum}))


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"threads": 100_000},
            {"threads": 0},
            {"threads": "x"},
            {"shard_rows": 0},
            {"shard_rows": "2"},
            {"rows": -5.5},
        ),
        *({"fingerprint": []}, {"fingerprint": {}}, {"layout": []}, {"source": 5}, {"task": None}, {"more": 1}),
    ],
)
def test_a_forged_manifest_is_refused(run, tmp_path, changes):
    folder = copied(run, tmp_path)
    forged_manifest(folder, **changes)
    for use in (lambda: attnx.Run.load(folder), lambda: again(run, folder)):
        with pytest.raises(FileFormatError, match="is no manifest that this attnx reads"):
            use()


@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"facts": []}, {"columns": {}}, {"columns": {"rollout": "evil"}}, {"columns": [1]}, {"decided": 1}),
        *(
            {"layers": []},
            {"layers": [1, 2]},
            {"relevance": ["raw"]},
            {"relevance": "rollout"},
            {"digits": {"flow": "x"}},
        ),
        *({"diagnostics": [1]}, {"image_size": [2, 2]}, {"provenance": 7}, {"texts": 9}, {"evil": 1}),
    ],
)
def test_a_forged_layout_is_refused_wherever_the_run_is_looked_at(run, tmp_path, changes):
    folder = copied(run, tmp_path)
    layout = run.manifest.layout
    if not {*changes} <= {*layout}:
        changes = {"facts": {**layout["facts"], **changes}}
    forged_manifest(folder, layout={**layout, **changes} if changes else {})
    for look in (list, repr, lambda read: read.summary(), lambda read: read.to_html(), lambda read: read[0]):
        try:
            look(attnx.Run.load(folder))
        except FileFormatError:
            continue
        assert look is repr  # it says what the layout has


@pytest.mark.parametrize(
    "changes",
    [
        *({"facts": "{"}, {"facts": "[1]"}, {"facts": "[" * 50_000}, {"facts": '{"sequences": "x"}'}, {"tokens": None}),
        *({"facts": '{"words": [{"x": 1, "positions": [0]}]}'}, {"facts": '{"prediction": {"evil": 1}}'}),
        *({"facts": '{"words": [{"index": 0, "text": "a", "positions": [99]}]}'}, {"facts": '{"provenance": "x"}'}),
        *({"facts": '{"-": 7}'}, {"facts": '{"-": ["layers"]}'}, {"word": [99] * 5}, {"words": None}),
        *({"rollout": [0.5]}, {"rollout": [math.nan] * 5}, {"position": 99}, {"position": -1}, {"labels": None}),
        *({"logits": []}, {"notes": None}, {"probability": math.nan}, {"segments": [7] * 5}),
    ],
)
def test_a_forged_row_is_refused_by_name(run, tmp_path, changes):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder = copied(run, tmp_path)
    part = min(folder.glob("part-*"))
    table = parquet.read_table(part)
    cells = [{**table.to_pylist()[0], **changes}, table.to_pylist()[1]]
    parquet.write_table(pa.Table.from_pylist(cells, schema=table.schema), part)
    part.rename(folder / f"{part.name[:-40]}{content_digest(part.read_bytes())}.parquet")
    read = attnx.Run.load(folder)
    for look in (lambda: read[0], lambda: list(read), read.summary, read.to_html):
        with pytest.raises(FileFormatError, match="row 0 of the run is not what attnx wrote"):
            look()


@pytest.mark.parametrize(
    "layout", [{}, {"columns": {"facts": "x"}}, {"columns": [1]}, {"decided": {"evil": 1}}, {"facts": 3}]
)
def test_a_forged_layout_of_another_question_is_refused(tmp_path, layout):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    few = {"methods": "rollout", "references": "gradient", "progress": False}

    def compared():
        return attnx.compare(model, tokenizer, ["a witty film"], run_dir=tmp_path / "run", **few)

    compared()
    layout = layout and {**json.loads((tmp_path / "run" / "_attnx.json").read_text())["layout"], **layout}
    forged_manifest(tmp_path / "run", layout=layout)
    with pytest.raises(FileFormatError, match="not what attnx wrote"):
        compared()


def test_a_row_is_named_by_its_number(run):
    with pytest.raises(ChoiceError, match=r"its number in the data, an int from 0, found 'R0003'; the column 'id'"):
        run["R0003"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list the threads of a process")
def test_reading_a_run_starts_no_thread(run, children):
    """Those of Arrow may abort a process at its end that loaded torch before them."""
    code = """
        import os, sys, torch
        from attnx.runs.sources import parquet
        from attnx.runs.sources import source_of
        from attnx.runs.sources import Columns
        from attnx.runs import status_of

        parquet()
        before = len(os.listdir("/proc/self/task"))
        rows = status_of(sys.argv[1]).rows
        of_file = len(list(source_of(sys.argv[2], Columns()).rows))
        print(rows, of_file, len(os.listdir("/proc/self/task")) - before)
    """
    part = Path(run.run_dir.name) / run.parts[0].name
    ended = children.run(python(code, run.run_dir.name, str(part)))
    assert (ended.returncode, ended.stdout) == (0, f"{len(run)} {run.parts[0].rows} 0\n"), ended.stderr
