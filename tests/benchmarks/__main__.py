"""All benchmarks of costs, or some, by one command; their ratios as a file, a page, and beside those of an earlier run.

    python -m tests.benchmarks                         # everything, twenty minutes on two cores and 6 GB
    python -m tests.benchmarks --short                 # within ten minutes
    python -m tests.benchmarks start batches           # these alone
    python -m tests.benchmarks --against tests/benchmarks/ratios.json      # exit code 1 where something is lost
    python -m tests.benchmarks --output tests/benchmarks/ratios.json --page docs/costs.md

Each is a process of its own. What it prints is shown as it comes; ratios and exponents are read off it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.compared import SLACK, changes
from tests.benchmarks.machine import machine
from tests.benchmarks.printed import Found, found_in
from tests.benchmarks.programme import PROGRAMME, Benchmark, chosen


@dataclass(frozen=True)
class Ran:
    """A benchmark as it was run."""

    benchmark: Benchmark
    command: str
    text: str
    found: Sequence[Found]
    seconds: float
    """Of the processor."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(one.name for one in PROGRAMME))
    parser.add_argument("--short", action="store_true", help="smaller sizes, fewer rounds, without the longest")
    parser.add_argument("--against", type=Path, metavar="FILE", help="the ratios of an earlier run")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the ratios: .json")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of costs: .md")
    asked = parser.parse_args()
    before = read(asked.against) if asked.against else []
    facts = machine()
    ran: list[Ran] = []
    failed: list[str] = []
    found: list[Found] = []
    for one in chosen(asked.names, short=asked.short):
        lacking = one.lacks()
        if lacking:
            print(f"{one.name} is left out: {lacking}", flush=True)
            continue
        done = run(one, short=asked.short)
        failed += [one.name] if done is None else []
        ran += [] if done is None else [done]
        found = [row for one in ran for row in one.found]
        if asked.output:  # after each, so that it can be stopped
            asked.output.write_text(written(facts, found), encoding="utf-8")
        if asked.page:
            asked.page.write_text(page(facts, ran, short=asked.short), encoding="utf-8")
    lost = compare(found, before) if asked.against else 0
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    sys.exit(1 if lost or failed else 0)


def run(one: Benchmark, *, short: bool) -> Ran | None:
    """None where it failed; it has said why."""
    arguments = [*(one.short or ())] if short else []
    command = " ".join(["python -m", f"tests.benchmarks.{one.name}", *arguments])
    print(f"\n$ {command}", flush=True)
    used = _processor_seconds()
    lines = []
    with subprocess.Popen(
        [sys.executable, "-m", f"tests.benchmarks.{one.name}", *arguments], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    text = "".join(lines)
    if child.returncode:
        return None
    return Ran(one, command, text, found_in(one.name, text), _processor_seconds() - used)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(found: Sequence[Found], before: Sequence[Found]) -> int:
    """Print what changed, the worst first; how many are losses."""
    gains = {one.name: one.gains for one in PROGRAMME}
    rows = sorted(changes(found, before, gains), key=lambda one: -one.worse)
    print(f"\n{len(rows)} numbers of {len(before)} were measured again; a loss is worse by more than {SLACK:.0%}")
    for row in rows:
        print(row)
    return sum(row.worse > SLACK for row in rows)


def written(facts: dict[str, str], found: Sequence[Found]) -> str:
    """The ratios as a file, a line each, so that a change of one is a change of one line."""
    rows = ",\n  ".join(json.dumps(one.to_dict(), ensure_ascii=False) for one in found)
    return f'{{"machine": {json.dumps(facts, ensure_ascii=False)},\n "found": [\n  {rows}\n ]}}\n'


def read(path: Path) -> list[Found]:
    return [Found(**one) for one in json.loads(path.read_text(encoding="utf-8"))["found"]]


def page(facts: dict[str, str], ran: Sequence[Ran], *, short: bool) -> str:
    """docs/costs.md: what stands above the tables is in `costs_head.md`."""
    head = Path(__file__).with_name("costs_head.md").read_text(encoding="utf-8")
    short_form = "the short form: smaller sizes and fewer rounds than by default" if short else "everything"
    parts = [
        head,
        "## The machine\n",
        *(f"- {name}: {value}" for name, value in facts.items()),
        f"- run: {short_form}\n",
    ]
    for one in ran:
        better = "more is better" if one.benchmark.gains else "less is better"
        parts += [f"## {one.benchmark.about}\n", f"`{one.command}`, {one.seconds:.0f} s of processors; {better}.\n"]
        parts += ["```text", one.text.strip(), "```\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    main()
