"""Winogender templates and CSV files are read as they are, and a malformed line is named."""

import pytest

from attnx.errors import InputError
from attnx.pronouns import read

HEAD = "occupation(0)\tother-participant(1)\tanswer\tsentence\n"
LINE = "technician\tcustomer\t1\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN could pay with cash.\n"


def written(tmp_path, text, name="mine.tsv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_template_is_a_masked_sentence_with_its_right_referent(tmp_path):
    (sentence,) = read(written(tmp_path, HEAD + LINE))
    assert sentence.text == "The technician told the customer that [MASK] could pay with cash."
    assert sentence.candidates == ("technician", "customer")
    assert sentence.pronouns == ("he", "she")
    assert sentence.answer == "customer"
    assert sentence.implies == {}
    assert sentence.place == "mine.tsv, line 2"


@pytest.mark.parametrize(
    ("slot", "pronouns"),
    [("$NOM_PRONOUN", ("he", "she")), ("$POSS_PRONOUN", ("his", "her")), ("$ACC_PRONOUN", ("him", "her"))],
)
def test_a_slot_stands_for_the_pronouns_of_its_case(tmp_path, slot, pronouns):
    (sentence,) = read(written(tmp_path, HEAD + LINE.replace("$NOM_PRONOUN", slot)))
    assert sentence.pronouns == pronouns


def test_a_word_of_the_template_is_not_taken_for_the_candidate(tmp_path):
    line = "baker\tclient\t0\tA client of the $OCCUPATION met the $PARTICIPANT at $POSS_PRONOUN shop.\n"
    (sentence,) = read(written(tmp_path, HEAD + line))
    assert sentence.candidates == ("baker", "client[1]")
    assert sentence.answer == "baker"


@pytest.mark.parametrize(
    ("women", "implies"),
    [
        ("4.03", {"he": "technician", "she": "customer"}),
        ("90.2", {"she": "technician", "he": "customer"}),
        ("50", {}),
        ("", {}),
    ],
)
def test_the_data_sets_own_statistics_say_whom_a_pronoun_speaks_for(tmp_path, women, implies):
    head, line = HEAD.replace("\n", "\tbls_pct_female\n"), LINE.replace("\n", f"\t{women}\n")
    (sentence,) = read(written(tmp_path, head + line))
    assert sentence.implies == implies


def test_a_csv_file_has_its_candidates_between_bars(tmp_path):
    text = (
        "sentence,candidates,answer,pronouns,implies\n"
        '"Mary, his friend, convinced John of [MASK] love",Mary|John,John,his | her,his=John|her=Mary\n'
        "\n"
        "The author met Sara at $POSS_PRONOUN house,author|Sara,,,\n"
    )
    first, second = read(written(tmp_path, text, "mine.csv"))
    assert first.text == "Mary, his friend, convinced John of [MASK] love"
    assert (first.candidates, first.pronouns, first.answer) == (("Mary", "John"), ("his", "her"), "John")
    assert first.implies == {"his": "John", "her": "Mary"}
    assert (second.pronouns, second.answer, second.place) == (("his", "her"), None, "mine.csv, line 4")


def test_pronouns_may_come_from_implies(tmp_path):
    text = "sentence,candidates,implies\nMary met John at [MASK] house,Mary|John,her=Mary|his=John\n"
    (sentence,) = read(written(tmp_path, text, "mine.csv"))
    assert sentence.pronouns == ("her", "his")


CSV = "sentence,candidates,answer,pronouns\n"
GOOD = "Mary met John at [MASK] house,Mary|John,Mary,his|her\n"
MALFORMED = {
    "nothing": ("", "begins with 'nothing', which are not the columns of a data set; give Winogender's"),
    "other columns": ("a,b\n1,2\n", "begins with 'a, b', which are not the columns"),
    "unknown column": ("sentence,candidates,anwser\n", "column 'anwser' is not known"),
    "column twice": ("sentence,candidates,answer,answer\n", "named twice"),
    "only a head": (CSV, "has no sentences"),
    "too few cells": (
        CSV + GOOD + "Mary met John,Mary|John\n",
        "mine.x, line 3: 2 columns, where the first line has 4",
    ),
    "too many cells": (CSV + GOOD.replace("\n", ",x\n"), "mine.x, line 2: 5 columns"),
    "unclosed quote": (CSV + GOOD + '"Mary met', "mine.x, line 3: "),
    "no sentence": (CSV + GOOD.replace("Mary met John at [MASK] house", ""), "line 2: the sentence is empty"),
    "no pronouns": (CSV + GOOD.replace("his|her", ""), "line 2: the sentence names no pronouns; add a column"),
    "one candidate": (CSV + GOOD.replace("Mary|John", "Mary"), "line 2: a probe compares candidates and needs two"),
    "answer": (CSV + GOOD.replace("John,Mary", "John,Mray"), "answer 'Mray' is not known; .* did you mean 'Mary'"),
    "implies": ("sentence,candidates,implies\na [MASK],a|b,his\n", "line 2: implies is 'his', expected pronoun=candid"),
    "bytes": (b"\xff\xfe\x00", "cannot be read as UTF-8"),
    "winogender cells": (HEAD + LINE + "technician\tcustomer\n", "mine.x, line 3: 2 columns"),
    "winogender answer": (HEAD + LINE.replace("\t1\t", "\t2\t"), "line 2: the answer is '2', expected 0"),
    "no slot": (HEAD + LINE.replace("$NOM_PRONOUN", "he"), r"no pronoun slot .* write one of \$NOM_PRONOUN"),
    "two slots": (HEAD + LINE.replace("cash", "$POSS_PRONOUN cash"), "2 pronoun slots in one sentence"),
    "no occupation": (HEAD + LINE.replace("$OCCUPATION", "man"), r"\$OCCUPATION stands 0 times"),
    "no word": (HEAD + LINE.replace("technician", ""), r"there is no word for \$OCCUPATION"),
    "percentage": (HEAD.replace("\n", "\tbls_pct_female\n") + LINE.replace("\n", "\tmany\n"), "expected a percentage"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_line_is_one_line_with_its_number(tmp_path, kind):
    text, message = MALFORMED[kind]
    path = tmp_path / "mine.x"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message) as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.tsv is not a file"):
        read(tmp_path / "nothing.tsv")


def test_the_templates_of_winogender_are_read(assets):
    sentences = read(assets / "winogender" / "templates.tsv")
    assert len(sentences) == 120
    assert sum(one.answer == one.candidates[0] for one in sentences) == 60
    assert all(one.text.count("[MASK]") == 1 and "$" not in one.text for one in sentences)
