"""Files of texts: every format gives the same, and what is wrong is named by file and line."""

import gzip

import pytest

from attnx.adapters import LabelledText, read_texts
from attnx.errors import FileFormatError, InputError

PAIRS = [("a witty film", "1"), ('it is "dull", all of it', "0")]
WANTED = [LabelledText(text, label) for text, label in PAIRS]
FORMATS = {
    "few.csv": 'label,text\n1,a witty film\n0,"it is ""dull"", all of it"\n',
    "few.tsv": 'label\ttext\n1\ta witty film\n0\tit is "dull", all of it\n',
    "few.jsonl": '{"text": "a witty film", "label": 1}\n\n{"text": "it is \\"dull\\", all of it", "label": 0}\n',
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_gives_the_same_texts(tmp_path, name, zipped):
    path = tmp_path / (name + ".gz" * zipped)
    with gzip.open(path, "wt") if zipped else path.open("w") as file:
        file.write(FORMATS[name])
    assert read_texts(path) == WANTED
    assert read_texts(path, column="text", limit=1) == WANTED[:1]


def test_a_plain_file_has_a_text_in_each_line(tmp_path):
    path = tmp_path / "few.txt"
    path.write_text("a witty film\n\n  it is dull \n")
    assert read_texts(path) == [LabelledText("a witty film"), LabelledText("it is dull")]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("empty.txt", "\n\n", {}, "empty.txt has no text in it"),
        ("few.txt", "a film\n", {"column": "text"}, "has a text in each line and no columns"),
        ("few.csv", "a,b\n1,2\n", {}, "none of the columns text, sentence.* one of a, b"),
        ("few.csv", "text,b\n1,2\n", {"column": "txt"}, "column 'txt' is not known; .* did you mean 'text'"),
        ("few.jsonl", '{"text": "a"}\n{"text": \n', {}, "few.jsonl, line 2: no JSON"),
        ("few.jsonl", '{"text": "a"}\n[3]\n', {}, "few.jsonl, line 2: expected an object"),
        ("few.jsonl", '{"text": "a"}\n{"text": 3}\n', {}, "few.jsonl, line 2 has no text in column 'text'"),
        ("few.txt", "a film\n", {"limit": 0}, "the number of texts must be at least 1, found 0"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, content, options, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises((FileFormatError, InputError), match=message):
        read_texts(path, **options)


def test_a_file_that_is_not_there_or_not_text_is_said(tmp_path):
    with pytest.raises(FileFormatError, match=r"cannot read .*nowhere.txt"):
        read_texts(tmp_path / "nowhere.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FileFormatError, match=r"cannot read .*binary.txt"):
        read_texts(tmp_path / "binary.txt")


def test_a_spreadsheets_mark_is_no_part_of_the_first_column(tmp_path):
    path = tmp_path / "reviews.CSV"
    path.write_text("text,label\nfine,1\n", encoding="utf-8-sig")
    assert [one.text for one in read_texts(path)] == ["fine"]


def test_one_json_document_is_not_read_as_lines(tmp_path):
    path = tmp_path / "reviews.json"
    path.write_text('[{"text": "fine"}]')
    with pytest.raises(FileFormatError, match=r"one JSON document; write an object a line into a \.jsonl"):
        read_texts(path)


def test_half_a_gzip_file_is_an_error_in_one_line(tmp_path):
    path = tmp_path / "reviews.txt.gz"
    path.write_bytes(gzip.compress(b"fine " * 1000)[:-12])
    with pytest.raises(FileFormatError, match="cannot read"):
        read_texts(path)


def test_a_row_has_as_many_cells_as_there_are_columns(tmp_path):
    (tmp_path / "x.csv").write_text("text,label\na film,1\na film, a book,2\n")
    with pytest.raises(
        FileFormatError, match=r"x.csv, line 3: there are 2 columns, and this row has 3 cells; .* needs"
    ):
        read_texts(tmp_path / "x.csv")
