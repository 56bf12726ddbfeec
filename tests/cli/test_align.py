"""`attnx align`: links on standard output, the error rate beside it."""

import sys

import pytest

from attnx.cli.main import main
from attnx.word_alignment import Alignment

SOURCES = "the third of march 1998\nnot may 9 2011 but 2004 june 7\n"
TARGETS = "1998 03 03\n2004 06 07\n"
GOLD = "4-0 3-1 1-2\n5-0 6-1 7-2\n"


@pytest.fixture
def align(monkeypatch, capsys, tmp_path):
    """Run it in a directory with two files and a gold: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.txt": SOURCES, "b.txt": TARGETS, "gold.txt": GOLD, "short.txt": "1998 03 03\n"}.items():
        (tmp_path / name).write_text(text)

    def run(*arguments, source="a.txt", target="b.txt", model="dates"):
        targets = () if target is None else ("--target-file", target)
        given = ("align", "--model", model, "--source-file", source, *targets, *arguments)
        monkeypatch.setattr(sys, "argv", ["attnx", *given])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_links_are_printed_as_pharaoh_has_them_and_the_error_rate_is_told(align):
    code, out, err = align("--gold", "gold.txt")
    assert (code, out) == (0, GOLD)
    assert "attnx: alignment error rate 0.000" in err


def test_they_go_to_a_file_of_any_format(align, tmp_path):
    for name in ("links.txt", "a.json", "a.html", "a.csv"):
        code, out, _ = align("--output", name)
        assert (code, out) == (0, "")
    assert (tmp_path / "links.txt").read_text() == GOLD
    assert Alignment.from_json((tmp_path / "a.json").read_text()).to_pharaoh() == GOLD
    assert 'id="alignment"' in (tmp_path / "a.html").read_text()


def test_without_a_target_the_model_writes_it(align, tmp_path):
    code, out, _ = align("--generated", "generated.txt", target=None)
    assert (code, out) == (0, GOLD)
    assert (tmp_path / "generated.txt").read_text() == TARGETS
    code, out, _ = align("--method", "lrp", target=None)
    assert (code, out) == (0, GOLD)


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        (("--gold", "none.txt"), {}, "there is no file none.txt"),
        ((), {"target": "short.txt"}, "2 sources and 1 targets"),
        (("--gold", "gold.txt", "--gold-first", "1"), {}, "counts from 0"),
        (("--layer", "cross 9"), {}, "cross 1 to cross 2"),
        ((), {"model": "recall"}, "encoder–decoder"),
        (("--output", "x.png"), {}, "x.png"),
        (("--generated", "g.txt"), {}, "no --target-file"),
        (("--gold", "gold.txt"), {"target": None}, "give the targets"),
        ((), {"target": None, "model": "recall"}, "no encoder–decoder"),
        (("--max-new-tokens", "0"), {"target": None}, "at least 1"),
        (("--method", "lrp", "--layer", "cross 1"), {}, "leave layer out"),
    ],
)
def test_mistakes_are_one_line(align, arguments, given, says):
    code, out, err = align(*arguments, **given)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
