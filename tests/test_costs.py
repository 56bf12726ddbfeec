"""The benchmarks' one command: ratios are read off what a script prints, kept, and held against a later run's."""

import re
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks.compared import changes
from tests.benchmarks.printed import Found, found_in
from tests.benchmarks.programme import PROGRAMME, Benchmark, chosen

BENCHMARKS = Path(__file__).parent / "benchmarks"
PRINTED = """\
BERT of 12 layers × 768, n = 512, median of 7
    2.403 s   1.00 ×  eager forward
    2.764 s   1.15 ×  explain, raw and rollout
overlay at full size          0.52 s
  networkx maximum_flow           91.2 s      7,037 ×  (floor: 1000 ×)   differs by 3e-16
  fitted: time grows as n^3.41; the edges of all pairs grow as n^4
value path: 3.21 ×, of the processor's time 3.05 ×
rollout of all tokens: 9.1 s, 15.3 times the writing
"""


def test_ratios_and_exponents_are_read_with_their_names():
    head = "BERT of 12 layers × 768, n = 512, median of 7"
    assert [(one.what, one.kind, one.value) for one in found_in("x", PRINTED)] == [
        (f"{head}: eager forward", "ratio", 1.0),
        (f"{head}: explain, raw and rollout", "ratio", 1.15),
        ("overlay at full size: networkx maximum_flow differs by", "ratio", 7037.0),
        ("overlay at full size: fitted: time grows as ; the edges of all pairs grow as n^4", "exponent", 3.41),
        ("value path: , of the processor's time", "ratio", 3.21),
        ("value path: , of the processor's time (2)", "ratio", 3.05),
        ("rollout of all tokens: , the writing", "ratio", 15.3),
    ]


def test_the_name_of_a_ratio_does_not_hang_on_what_was_measured():
    other = re.sub(r"2\.764 s   1\.15", "9.001 s   2.75", PRINTED)
    keys = [[one.key for one in found_in("x", text)] for text in (PRINTED, other)]
    assert keys[0] == keys[1]


def test_a_loss_is_more_cost_or_less_gain():
    def found(name, kind, value):
        return Found(name, "a thing", kind, value)

    then = [found("cost", "ratio", 1.2), found("gain", "ratio", 40.0), found("gain", "exponent", 3.0)]
    now = [found("cost", "ratio", 1.8), found("gain", "ratio", 20.0), found("gain", "exponent", 3.3)]
    worse = [one.worse for one in changes(now, then, {"cost": False, "gain": True})]
    assert worse == pytest.approx([0.5, 0.5, 0.1])
    assert changes([found("new", "ratio", 1.0)], then, {}) == []


def test_what_was_written_is_read_and_a_loss_ends_the_command(tmp_path, monkeypatch, capsys):
    ran = [command.Ran(Benchmark("start", "starting"), "python -m x", PRINTED, found_in("start", PRINTED), 1.0)]
    monkeypatch.setattr(command, "run", lambda one, short: ran[0])
    file, page = tmp_path / "ratios.json", tmp_path / "costs.md"
    for arguments, code in (
        (["start", "--output", str(file), "--page", str(page)], 0),
        (["start", "--against", str(file)], 0),
    ):
        monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
        with pytest.raises(SystemExit) as end:
            command.main()
        assert end.value.code == code
    assert command.read(file) == list(ran[0].found)
    assert "## starting" in page.read_text()
    assert "1.15 ×  explain, raw and rollout" in page.read_text()
    file.write_text(file.read_text().replace("1.15", "0.55"))
    monkeypatch.setattr("sys.argv", ["benchmarks", "start", "--against", str(file)])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 1
    assert "LOSS" in capsys.readouterr().out


def test_every_row_of_the_programme_is_a_script_that_takes_its_arguments():
    for one in PROGRAMME:
        text = (BENCHMARKS / f"{one.name}.py").read_text(encoding="utf-8")
        assert 'if __name__ == "__main__"' in text
        assert all(f'"{option}"' in text for option in one.short or () if option.startswith("--"))


def test_some_are_chosen_by_name_and_the_short_form_leaves_out_the_longest():
    assert [one.name for one in chosen(["flow", "start"], short=True)] == ["flow", "start"]
    assert {one.name for one in chosen([], short=True)} < {one.name for one in chosen([], short=False)}
    with pytest.raises(SystemExit, match="there is no benchmark 'nope'"):
        chosen(["nope"], short=False)


def test_the_page_of_costs_holds_the_ratios_that_later_runs_are_held_against():
    page = (Path(__file__).parents[1] / "docs" / "costs.md").read_text(encoding="utf-8")
    kept = command.read(BENCHMARKS / "ratios.json")
    blocks = re.findall(r"`python -m tests\.benchmarks\.(\w+)[^`]*`.*?```text\n(.*?)```", page, re.S)
    assert [one for name, text in blocks for one in found_in(name, text)] == kept
    assert len(kept) > 10
