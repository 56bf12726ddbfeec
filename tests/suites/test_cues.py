"""Cue files: how they are read, which word counts, and a line for each thing that is wrong."""

import numpy as np
import pytest

import attnx
from attnx.attribution import REFERENCES, Scored
from attnx.attribution.base import Reference
from attnx.benchmarks.benchmark import Trial
from attnx.benchmarks.cues import Cue, questions, read_cues
from attnx.benchmarks.suites import embedded as recall_model
from attnx.errors import FileFormatError, InputError
from tests import zoo

HEAD = "prefix\tgood\tbad\tcue\n"


@pytest.fixture
def written(tmp_path):
    def write(*lines, head=HEAD):
        path = tmp_path / "cues.tsv"
        path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_a_cue_is_a_word_or_where_it_stands(written):
    one, two = read_cues(written("The key to the keys\tis\tare\tkey", "the key to the key\tis\tare\t4:7"))
    assert (one.start, one.end, two.start, two.end) == (4, 7, 4, 7)
    assert one == Cue("The key to the keys", "is", "are", 4, 7, "cues.tsv, line 2")


def test_spaces_behind_a_prefix_are_left_out_and_those_before_it_are_counted(written):
    (one,) = read_cues(written("  the key \tis\tare\t6:9"))
    assert (one.prefix, one.prefix[one.start : one.end]) == ("  the key", "key")


def test_quotation_marks_are_part_of_the_text_and_further_columns_are_left_alone(written):
    (one,) = read_cues(written('"Well," said Ann\the\tshe\tAnn\tnote', head="prefix\tgood\tbad\tcue\tmore\n"))
    assert one.prefix == '"Well," said Ann'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("the key\tis\tare\tdoor", "line 2: the cue 'door' is not in 'the key'; give where it stands"),
        ("a key, a key\tis\tare\tkey", "line 2: the cue 'key' occurs 2 times in"),
        ("the key\tis\tare\t5:99", "line 2: the cue 5:99 is no span of characters"),
        ("the key\tis\tare\t3:3", "line 2: the cue 3:3 is no span"),
        ("the key\tis\t\tkey", "line 2: the column bad is empty"),
        ("the key\tis", "line 2: the column bad, cue is empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_a_line_that_names_it(written, line, message):
    with pytest.raises(FileFormatError, match=message):
        read_cues(written(line))


def test_a_missing_column_an_empty_file_and_no_file_are_a_line_each(written, tmp_path):
    with pytest.raises(FileFormatError, match=r"lacks the column bad, cue: a cue file has .*; found prefix, good"):
        read_cues(written(head="prefix\tgood\n"))
    with pytest.raises(FileFormatError, match=r"lacks the column prefix, good, bad, cue: .*; found an empty file"):
        read_cues(written(head=""))
    with pytest.raises(InputError, match="has a heading and no rows"):
        read_cues(written())
    with pytest.raises(FileFormatError, match="cannot read"):
        read_cues(tmp_path / "none.tsv")


def test_continuations_that_begin_with_the_same_token_are_a_line(written):
    model, tokenizer = recall_model()
    path = written("k1 v1 k1\tv1\tv1 k2\tv1")
    with pytest.raises(InputError, match=r"line 2: 'v1' and 'v1 k2' begin with the same token \(v1\)"):
        list(questions(Trial(model, tokenizer, 5, path)))


def whole_words(tokenizer):
    """Words that are one token behind a space."""
    return [token[1:] for token in sorted(tokenizer.get_vocab()) if token[:1] == "Ġ" and token[1:].isalpha()]


def test_words_are_what_stands_between_spaces_and_their_tokens_are_summed(written):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    good, bad = whole_words(tokenizer)[:2]
    (one,) = questions(Trial(model, tokenizer, 5, written(f"The cat sat, softly\t{good}\t{bad}\tsat")))
    assert len(one.units) == 4
    assert one.right == (2,)
    assert sorted(place for unit in one.units for place in unit) == list(range(len(one.request.prepared.positions)))
    assert one.request.target == tuple(tokenizer.convert_tokens_to_ids([f"Ġ{good}", f"Ġ{bad}"]))


def test_a_cue_of_two_words_counts_by_the_first_that_is_found(written):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    good, bad = whole_words(tokenizer)[:2]
    (one,) = questions(Trial(model, tokenizer, 5, written(f"The New York team\t{good}\t{bad}\tNew York")))
    assert one.right == (1, 2)


def test_a_cue_file_with_a_decoder_is_measured_beside_chance(written):
    """Texts of recall as a cue file: the suite and the file agree on what an explainer that knows it gets."""

    def oracle(model, processor, cases, *, progress=False):
        found = []
        for case in cases:
            tokens = [one.token for one in case.prepared.positions]
            scores = np.zeros(len(tokens))
            scores[tokens.index(tokens[-1]) + 1] = 1.0
            found.append(Scored(scores, signed=True))
        return found

    path = written("k1 v1 k2 v2 k1\tv1\tv2\tv1", "k1 v1 k2 v2 k2\tv2\tv1\tv2", "k1 v1 k2 v2 k2\tv1\tv2\tv1")
    REFERENCES.add("oracle", Reference("oracle", oracle))
    try:
        found = attnx.benchmark(*recall_model(), data=path, references="oracle", progress=False)
    finally:
        REFERENCES.remove("oracle")
    assert tuple(found.suites) == ("cues",)
    assert (found.suites["cues"].count, found.suites["cues"].wrong) == (2, 1)
    assert found.cell("oracle", "cues").mean == 1.0
