from __future__ import annotations

import gzip

import pytest

from attnx.demo_models import Beginning, read
from attnx.errors import InputError

HEADER = (
    "sentence orig_sentence pos_sentence subj verb subj_pos has_rel has_nsubj verb_pos subj_index verb_index "
    "n_intervening last_intervening n_diff_intervening distance max_depth all_nouns nouns_up_to_verb"
)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return [path]


def test_two_columns(tmp_path):
    found = read(write(tmp_path / "some.tsv", "VBZ\tthe key\nVBP\tthe NNS of NNP\n"))
    assert found == [Beginning("the key", 0), Beginning("the NNS of NNP", 1)]


def test_gzipped_is_the_same(tmp_path):
    path = tmp_path / "some.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("VBP\tthe keys\n")
    assert read([path]) == [Beginning("the keys", 1)]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(b"VBZ\t" + b"the " * 100_000))
    with pytest.raises(InputError, match="a line of more than 100,000 characters"):
        read([path])


def test_a_name_says_the_number_of_attractors(tmp_path):
    (found,) = read(write(tmp_path / "numpred.test.3.tsv", "VBZ\tthe key\n"))
    assert found.attractor_count == 3
    assert not found.natural


def test_subject_column(tmp_path):
    found = read(write(tmp_path / "wiki.tsv", "label\tsubject\tbeginning\nVBZ\t1\tthe key to the doors\n"))
    assert found == [Beginning("the key to the doors", 0, subject=1)]


def test_original_layout_is_cut_before_the_verb(tmp_path):
    columns = HEADER.split()
    values = dict.fromkeys(columns, "x") | {
        "sentence": "the keys to the door are old .",
        "verb_pos": "VBP",
        "subj_index": "2",
        "verb_index": "6",
        "n_diff_intervening": "1",
    }
    text = "\t".join(columns) + "\n" + "\t".join(values[column] for column in columns) + "\n"
    (found,) = read(write(tmp_path / "agr_50_mostcommon_10K.tsv", text))
    assert found == Beginning("the keys to the door", 1, subject=1, attractor_count=1)
    assert found.words[found.subject] == "keys"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a label, a tab and words"),
        ("VBZ", "expected a label, a tab and words"),
        ("VBZ\tthe\tkey", "found 3 columns"),
        ("VBZ\t  ", "no words before the verb"),
        ("NN\tthe key", "the label is 'NN', expected VBZ or VBP"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path, line, message):
    with pytest.raises(InputError, match=rf"bad\.tsv, line 2: .*{message}.*mend or delete"):
        read(write(tmp_path / "bad.tsv", f"VBZ\tthe key\n{line}\nVBP\tthe keys\n"))


@pytest.mark.parametrize(
    ("line", "message"),
    [("VBZ\t9\tthe key", "subject is '9', expected a number from 0 to 1"), ("VBZ\tthe key", "2 columns")],
)
def test_a_bad_line_with_subjects_is_named_by_its_number(tmp_path, line, message):
    with pytest.raises(InputError, match=rf"line 2: .*{message}"):
        read(write(tmp_path / "bad.tsv", f"label\tsubject\tbeginning\n{line}\n"))


def test_an_empty_or_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match="has no sentences"):
        read(write(tmp_path / "empty.tsv", ""))
    with pytest.raises(InputError, match="is not a file"):
        read([tmp_path / "missing.tsv"])


def test_what_is_not_text_is_an_error(tmp_path):
    path = tmp_path / "bytes.tsv"
    path.write_bytes(b"VBZ\t\xff\xfe\n")
    with pytest.raises(InputError, match="cannot be read as UTF-8"):
        read([path])


ORIGINAL = "sentence\tverb_pos\tsubj_index\tverb_index\tn_diff_intervening\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("the key is here\tVBZ\t0\t3\t0", "subj_index is '0'"),
        ("the key is here\tVBZ\tx\t3\t0", "subj_index is 'x'"),
        ("the key is here\tVBZ\t2\t9\t0", "verb_index is '9', expected a number from 1 to 4"),
        ("the key is here\tVBZ\t2\t-1\t0", "verb_index is '-1'"),
        ("the key is here\tVBZ\t2\t3\t-4", "n_diff_intervening is '-4'"),
    ],
)
def test_numbers_out_of_range_are_named_with_their_column(tmp_path, row, message):
    path = tmp_path / "agr.tsv"
    path.write_text(f"{ORIGINAL}{row}\n")
    with pytest.raises(InputError, match=f"line 2: {message}"):
        read([path])


def test_a_subject_behind_the_verb_is_no_word_of_the_beginning(tmp_path):
    path = tmp_path / "agr.tsv"
    path.write_text(f"{ORIGINAL}here is the key\tVBZ\t4\t2\t0\n")
    assert read([str(path)])[0].subject is None


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "bom.tsv").write_text("VBZ\tthe key\n", encoding="utf-8-sig")
    assert read([tmp_path / "bom.tsv"])[0].label == 0


def test_a_damaged_archive_is_an_error(tmp_path):
    path = tmp_path / "bad.tsv.gz"
    lines = "".join(f"VBZ\tthe key number {number}\n" for number in range(9000))
    packed = bytearray(gzip.compress(lines.encode()))
    for place in range(200, 260):
        packed[place] ^= 0xFF
    path.write_bytes(bytes(packed))
    with pytest.raises(InputError, match=r"bad\.tsv\.gz"):
        read([path])
