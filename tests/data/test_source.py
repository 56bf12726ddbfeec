"""What users hold becomes rows in their order, and what cannot be one is a line that names what can."""

import gzip
import json

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

from attnx.data.columns import Columns
from attnx.data.row import DataRow, shards
from attnx.data.source import source_of
from attnx.errors import AttnxError, InputError

TEXTS = ["a witty film", "a dull film", "no film at all"]


def rows(data, **columns):
    return list(source_of(data, Columns(**columns)).rows)


def given(data, **columns):
    return [one.given for one in rows(data, **columns)]


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
        assert [(one.given, one.gold, one.id) for one in found] == list(
            zip(TEXTS, ["1", None, "3"], "abc", strict=True)
        )
    assert rows(frame, text=("review", "name"))[0].given == ("a witty film", "a")


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
        ("a.csv", ["label,text", "1,one", "2", "3,two"], "line 3: there is nothing in column 'text'"),
    ],
)
def test_a_bad_row_is_one_bad_row(tmp_path, name, lines, said):
    first, bad, last = rows(table(tmp_path, name, lines))
    assert (first.given, last.given) == ("one", "two")
    assert bad.problem.startswith(said) if said else bad.given == ""


def test_bytes_that_are_no_text_are_one_bad_row(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe\ntwo\n")
    first, bad, last = rows(tmp_path / "a.txt")
    assert (first.given, last.given) == ("one", "two")
    assert "\udcff" in bad.given  # `explain` says that it was decoded wrongly


@pytest.mark.parametrize(
    ("data", "columns", "said"),
    [
        ("no/such.csv", {}, "no file or folder 'no/such.csv'"),
        ("a film to look at", {}, r"one text goes in a list: \[text\]"),
        ([], {}, "the list has no row in it"),
        (7, {}, "'int' is no data set; give a list or generator"),
        (rows, {}, "give the generator that it returns"),
        ({"text": TEXTS}, {}, r"'dict' is no data set, but pandas.DataFrame\(data\) is one"),
        (set(TEXTS), {}, r"no order to go on in, sorted\(data\) has one"),
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
    made = list(shards((DataRow(number, str(number), str(number)) for number in range(10)), 4))
    assert [len(one.rows) for one in made] == [4, 4, 2]
    again = list(shards((DataRow(number, str(number), str(number)) for number in range(10)), 4))
    assert [one.digest for one in made] == [one.digest for one in again]
    other = list(shards((DataRow(number, str(number), str(number), gold="1") for number in range(10)), 4))
    assert not {one.digest for one in made} & {one.digest for one in other}


def test_a_dictionary_that_explain_takes_is_one_input_and_has_its_label_beside_it():
    picture = Image.new("RGB", (8, 8))
    (row,) = rows([{"image": picture, "text": "what is it?", "label": "nothing", "id": "a"}])
    assert (row.given["image"], row.given["text"]) == (picture, "what is it?")
    assert (row.gold, row.id) == ("nothing", "a")
    assert given([{"image": picture, "text": "what is it?"}], text="text") == ["what is it?"]
    sound = {"array": np.zeros(100), "sampling_rate": 16_000}
    assert given([sound]) == [sound]


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
