"""What users hold becomes rows in their order, and what cannot be one is a line that names what can."""

import csv
import gzip
import json
import re

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from attnx.adapters import read_texts
from attnx.errors import AttnxError, FileFormatError, InputError
from attnx.runs.sources import Columns, DataRow, shards, source_of

TEXTS = ["a witty film", "a dull film", "no film at all"]


def rows(data, **columns):
    return list(source_of(data, Columns(**columns)).rows)


def given(data, **columns):
    return [one.input for one in rows(data, **columns)]


def table(folder, name, lines, packed=False):
    path = folder / name
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("data", [TEXTS, tuple(TEXTS), iter(TEXTS), (one for one in TEXTS), pandas.Series(TEXTS)])
def test_texts_in_memory(data):
    assert given(data) == TEXTS


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_every_kind(tmp_path, packed):
    end = ".gz" if packed else ""
    lines = [f"{text}\t{number}" for number, text in enumerate(TEXTS)]
    files = [
        table(tmp_path, f"a.txt{end}", ["", *TEXTS, ""], packed),
        table(tmp_path, f"a.csv{end}", ["text,label", *(line.replace("\t", ",") for line in lines)], packed),
        table(tmp_path, f"a.tsv{end}", ["text\tlabel", *lines], packed),
        table(tmp_path, f"a.jsonl{end}", [json.dumps({"text": text, "label": 1}) for text in TEXTS], packed),
    ]
    for path in files:
        assert given(path) == given(str(path)) == TEXTS
        assert source_of(path, Columns()).count == 3
    assert [one.gold for one in rows(files[1])] == ["0", "1", "2"]
    assert [one.id for one in rows(files[0])] == ["2", "3", "4"]  # lines of the file


def test_tables_of_pandas_and_parquet_have_columns(tmp_path):
    frame = pandas.DataFrame({"review": TEXTS, "stars": [1, None, 3], "name": list("abc")})
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (frame, tmp_path / "a.parquet"):
        found = rows(data, gold="stars", id="name")
        assert [(one.input, one.gold, one.id) for one in found] == list(
            zip(TEXTS, ["1", None, "3"], "abc", strict=True)
        )
    assert rows(frame, text=("review", "name"))[0].input == ("a witty film", "a")


def test_the_datasets_library_held_and_streamed():
    datasets = pytest.importorskip("datasets", reason="datasets is in the test extra: pip install 'attnx[test]'")
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    held = datasets.Dataset.from_dict({"text": TEXTS, "label": [1, 0, 1]}, features=features)
    for data in (held, held.to_iterable_dataset(), datasets.IterableDataset.from_generator(lambda: iter(held))):
        assert given(data) == TEXTS
    assert [one.gold for one in rows(held)] == ["good", "bad", "good"]
    with pytest.raises(InputError, match=r"several data sets \(train\); give one: data\['train'\]"):
        rows(datasets.DatasetDict(train=held))


def test_a_folder_of_images_has_its_folders_for_labels(tmp_path):
    for name in ("cats/b.png", "cats/a.jpg", "dogs/c.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"not read here")
    assert [(one.id, one.gold) for one in rows(tmp_path)] == [
        ("cats/a.jpg", "cats"),
        ("cats/b.png", "cats"),
        ("dogs/c.webp", "dogs"),
    ]


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("a.jsonl", ['{"text": "one"}', "{", '{"text": "two"}'], "line 2: no JSON"),
        ("a.jsonl", ['{"text": "one"}', "[1]", '{"text": "two"}'], "line 2: expected an object"),
        ("a.csv", ["text,label", "one,1", ",2", "two,3"], None),
        ("a.csv", ["label,text", "1,one", "2", "3,two"], "line 3: there are 2 columns, and this row has 1 cells"),
        (
            "a.csv",
            ["text,label", "one,1", "no, one,2", "two,3"],
            "line 3: there are 2 columns, and this row has 3 cells",
        ),
        ("a.tsv", ["text\tlabel", "one\t1", "no\tone\t2", "two\t3"], "line 3: there are 2 columns"),
        ("a.csv", ["text,label", "one,1", '"no"one"",2', "two,3"], "line 3: no row of a table (',' expected after"),
        (
            "a.jsonl",
            ['{"text": "one"}', '{"text": "no", "label": 1' + "0" * 5000 + "}", '{"text": "two"}'],
            "line 2: no JSON",
        ),
    ],
)
def test_a_bad_row_is_one_bad_row(tmp_path, name, lines, said):
    first, bad, last = rows(table(tmp_path, name, lines))
    assert (first.input, last.input) == ("one", "two")
    assert bad.problem.startswith(said) if said else bad.input == ""


def test_bytes_that_are_no_text_are_one_bad_row(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe\ntwo\n")
    first, bad, last = rows(tmp_path / "a.txt")
    assert (first.input, last.input) == ("one", "two")
    assert "\udcff" in bad.input  # `explain` says that it was decoded wrongly


@pytest.mark.parametrize(
    "rest",
    [["one,1"] * 1000, ['"two",2', "one,1"], ['the "film",2', "one,1"]],
    ids=["to the end", "to another cell", "to a word"],
)
def test_a_stray_quotation_mark_does_not_swallow_rows(tmp_path, rest):
    with pytest.raises(FileFormatError, match=r"a.csv: a quotation mark in line 3 opens a cell .* write .* twice"):
        rows(table(tmp_path, "a.csv", ["text,label", "one,1", '"stray,2', *rest]))


def test_a_cell_may_be_long_and_have_many_lines(tmp_path):
    before = csv.field_size_limit()
    poem = "\n".join(["a line of a poem, and more"] * 8_000)
    path = table(tmp_path, "a.csv", ["text,label", "one,1", f'"{poem}",2', "two,3"])
    assert given(path) == ["one", poem, "two"]
    assert [one.text for one in read_texts(path)] == ["one", poem, "two"]
    assert csv.field_size_limit() == before


def test_two_columns_of_one_name_are_an_error_where_that_name_is_used(tmp_path):
    frame = pandas.DataFrame([["one", "two", "x", "y"]], columns=["text", "text", "", ""])
    path = table(tmp_path, "a.csv", ["text,text,,", "one,two,x,y"])
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays([pyarrow.array(["one"]), pyarrow.array(["two"])], names=["text", "text"]),
        tmp_path / "a.parquet",
    )
    for data in (frame, path, tmp_path / "a.parquet"):
        with pytest.raises(InputError, match="2 columns are called 'text'; rename all but one"):
            rows(data)
    with pytest.raises(InputError, match="2 columns are called 'text'; rename all but one"):
        read_texts(path)
    assert given(table(tmp_path, "b.csv", ["text,label,,", "one,1,x,y"])) == ["one"]
    assert given(frame.set_axis(["text", "more", "", ""], axis=1)) == ["one"]


def test_columns_may_be_numbers():
    frame = pandas.DataFrame([["one", "1"], ["two", "2"]])
    for column, gold in ((0, 1), ("0", "1")):
        assert [(one.input, one.gold) for one in rows(frame, text=column, gold=gold)] == [("one", "1"), ("two", "2")]
        assert given([{0: "one", 1: "1"}], text=column) == ["one"]


def test_a_format_of_the_datasets_library_does_not_change_the_cells():
    datasets = pytest.importorskip("datasets", reason="datasets is in the test extra: pip install 'attnx[test]'")
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    held = datasets.Dataset.from_dict({"text": TEXTS, "label": [1, 0, 1]}, features=features)
    for kind in ("torch", "numpy", "pandas", "arrow"):
        formatted = held.with_format(kind)
        assert [(one.input, one.gold) for one in rows(formatted)] == list(
            zip(TEXTS, ["good", "bad", "good"], strict=True)
        )
        assert formatted.format["type"] == kind
    assert [one.gold for one in rows(held.to_iterable_dataset().with_format("torch"))] == ["good", "bad", "good"]
    assert [one.gold for one in rows(one for one in held.with_format("torch"))] == ["1", "0", "1"]
    made = held.with_transform(lambda batch: {**batch, "text": [text.upper() for text in batch["text"]]})
    assert given(made) == [text.upper() for text in TEXTS]


def test_an_invalid_cell_of_a_parquet_file_is_one_bad_row(tmp_path):
    texts = pyarrow.array([b"one", b"\xff\xfe caf\xe9", b"two"], pyarrow.binary()).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet")
    first, bad, last = rows(tmp_path / "a.parquet")
    assert (first.input, last.input) == ("one", "two")
    assert "cannot be read (UnicodeDecodeError" in bad.problem


class Unspeakable:
    def __str__(self):
        raise ValueError("no words")


def circle():
    made = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"text": "no", "label": "caf\udce9"}, r"its label is not valid UTF-8: caf\\udce9"),
        ({"text": "no", "id": "caf\udce9"}, r"its id is not valid UTF-8: caf\\udce9"),
        ({"text": "no", "label": 10**5000}, "cannot be read .*digits"),
        ({"text": "no", "label": Unspeakable()}, "cannot be read .*no words"),
        ({"text": {1: "a", "b": 2}}, "cannot be hashed"),
        ({"text": circle()}, "cannot be hashed"),
    ],
)
def test_a_cell_that_cannot_be_kept_is_the_problem_of_its_row(bad, said):
    first = {"text": "one", "label": "1", "id": "a"}
    (shard,) = shards(source_of([first, bad, {"text": "two"}], Columns()).rows, lambda row: 8)
    assert [one.input for one in (shard.rows[0], shard.rows[2])] == ["one", "two"]
    assert re.search(said, shard.rows[1].problem)
    json.dumps([shard.rows[1].id, shard.rows[1].gold, shard.rows[1].problem], ensure_ascii=False).encode()
    assert shard.digest


@pytest.mark.parametrize(
    ("data", "columns", "said"),
    [
        ("no/such.csv", {}, "no file or folder 'no/such.csv'"),
        ("a film to look at", {}, r"one text goes in a list: \[text\]"),
        ([], {}, "the list has no row in it"),
        (7, {}, "'int' is no data set; give a list or generator"),
        (rows, {}, "give the generator that it returns"),
        ({"text": TEXTS}, {}, r"'dict' is no data set, but pandas.DataFrame\(data\) is one"),
        (set(TEXTS), {}, r"no order to resume in, sorted\(data\) has one"),
        (np.array(TEXTS), {}, r"'ndarray' is no data set, but list\(data\) may be one"),
        (torch.utils.data.DataLoader(TEXTS), {}, "give what it was made of: data.dataset"),
        (pandas.DataFrame({"sentences": TEXTS}), {}, "the DataFrame has none of the columns text, sentence"),
        (pandas.DataFrame({"text": TEXTS}), {"text": "texts"}, "column 'texts' is not known; .* did you mean 'text'"),
        (pandas.DataFrame({"text": TEXTS}), {"gold": "lable"}, "column 'lable' is not known"),
        (TEXTS, {"text": "text"}, "has no columns"),
    ],
)
def test_what_is_no_data_set(data, columns, said):
    with pytest.raises(AttnxError, match=said):
        rows(data, **columns)


@pytest.mark.parametrize(("name", "content"), [("a.csv", "text,label\n"), ("a.txt", "\n\n"), ("a.jsonl", "")])
def test_an_empty_file(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match="has no row in it"):
        rows(tmp_path / name)


def test_files_of_another_kind_and_damaged_ones(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    (tmp_path / "a.parquet").write_bytes(b"PAR0")
    for name, said in (("a.xlsx", r"give .txt \(a text a line\), .csv"), ("a.parquet", "no Parquet file")):
        with pytest.raises(AttnxError, match=said):
            rows(tmp_path / name)


def test_shards_are_fixed_ranges_and_know_their_rows():
    made = list(shards((DataRow(number, str(number), str(number)) for number in range(10)), lambda row: 4))
    assert [len(one.rows) for one in made] == [4, 4, 2]
    again = list(shards((DataRow(number, str(number), str(number)) for number in range(10)), lambda row: 4))
    assert [one.digest for one in made] == [one.digest for one in again]
    other = list(shards((DataRow(number, str(number), str(number), gold="1") for number in range(10)), lambda row: 4))
    assert not {one.digest for one in made} & {one.digest for one in other}


def test_a_dictionary_that_explain_takes_is_one_input_and_has_its_label_beside_it():
    picture = Image.new("RGB", (8, 8))
    (row,) = rows([{"image": picture, "text": "what is it?", "label": "nothing", "id": "a"}])
    assert (row.input["image"], row.input["text"]) == (picture, "what is it?")
    assert (row.gold, row.id) == ("nothing", "a")
    assert given([{"image": picture, "text": "what is it?"}], text="text") == ["what is it?"]
    audio = {"array": np.zeros(100), "sampling_rate": 16_000}
    assert given([audio]) == [audio]


def test_inputs_differ_by_all_of_their_numbers_and_not_by_where_they_are_held():
    """Printed, the middle of a long array is left out, and a picture is a place in memory."""
    one = torch.zeros(5_000)
    other = one.clone()
    other[2_500] = 1
    for kind in (lambda given: {"pixel_values": given}, lambda given: {"array": given.numpy()}, lambda given: [given]):
        assert DataRow(0, "0", kind(one)).sha256 == DataRow(0, "0", kind(one.clone())).sha256
        assert DataRow(0, "0", kind(one)).sha256 != DataRow(0, "0", kind(other)).sha256
    black, again, white = (Image.new("L", (4, 4), shade) for shade in (0, 0, 255))
    pictured = [DataRow(0, "0", {"image": one, "text": "?"}).sha256 for one in (black, again, white)]
    assert pictured[0] == pictured[1] != pictured[2]


def test_workers_in_other_directories_find_images_of_a_relative_folder(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"not read here")
    monkeypatch.chdir(tmp_path)
    (row,) = rows("images")
    assert (row.id, row.input) == ("a.png", tmp_path / "images" / "a.png")
