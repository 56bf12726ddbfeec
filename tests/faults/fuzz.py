"""Inputs that nobody should give, through Python, the command line and files: an `AttnxError`, or an answer.

    python -m tests.faults.fuzz --count 5000

Anything else that comes out is printed with the input that led to it; the command line may end, but not with a
traceback. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attnx
from attnx.adapters import read_texts
from attnx.cli.main import main as command_line
from attnx.errors import AttnxError
from attnx.pronouns import read as read_pronouns
from tests import zoo

TEXT = "the key to the cabinets is on a table"
DEEP = "[" * 100_000
HOSTILE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 99, 2**70, 10**5000, 0.5, -0.5, 1.5, float("nan"), float("inf")),
    *(
        "",
        "x",
        "raw",
        "mean",
        "all",
        "--3",
        "9" * 5000,
        "a\0b",
        "\x1b]0;owned\x07",
        "\ud800",
        "=1+1",
        DEEP,
        "👩‍👩‍👧",
        "‮abc",
    ),
    *([], [0], [[0]], ["raw", 1], (), (1, 2, 3), {}, {"a": 1}, {"gradient": 1}, {"blankout": {"unit": "page"}}, {1: 2}),
    *(b"bytes", object(), lambda: None, int, np.array([1, 2]), np.float32(2), np.nan, torch.ones(2), torch.tensor(1)),
    *(Path("nowhere"), range(3), iter([]), {"raw"}, Ellipsis, 1j),
]
TEXTS: list[Any] = [TEXT, "a", " ", [TEXT, "a dull movie"], (TEXT, "a movie"), "word " * 200, "\u200d" * 9, "a\n\tb"]
SAID = (
    "sum",
    "norm",
    "rollout",
    "flow",
    "max",
    "min",
    "column",
    "receptive_field",
    "prefix",
    "auto",
    "gradient",
    "blankout",
)
OPTIONS = (
    *(
        "methods",
        "references",
        "layer",
        "head",
        "position",
        "target",
        "residual",
        "normalize",
        "drop_sink",
        "discard_ratio",
    ),
    *(
        "truncate",
        "prepend_token",
        "all_queries",
        "interpolate",
        "module",
        "batch_size",
        "method",
        "measure",
        "seed",
        "steps",
        "shares",
        "baseline",
        "score",
    ),
)
COMMANDS = ("explain", "compare", "faithfulness", "head-atlas", "generate", "probe", "reproduce", "nothing")
FLAGS = (
    *(
        "--head",
        "--layer",
        "--all-layers",
        "--position",
        "--target",
        "--method",
        "--reference",
        "--normalize",
        "--pair",
    ),
    *(
        "--discard-ratio",
        "--json",
        "--data",
        "--column",
        "--limit",
        "--measure",
        "--seed",
        "--output",
        "--html",
        "--image",
    ),
    *(
        "--markdown",
        "--image",
        "--all-layers",
        "--truncate",
        "--prepend-token",
        "--content-only",
        "--max-new-tokens",
        "--continuation",
        "--help",
        "--version",
        "-",
    ),
)


class Fuzz:
    """Draws inputs and calls what takes them; an exception that is not meant is kept with its input."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.failures: list[str] = []
        self.counts = {"python": 0, "command line": 0, "files": 0}
        words = zoo.wordpiece_tokenizer()
        self.models = [
            (zoo.classifier(), words),
            (zoo.masked_lm(), words),
            (zoo.causal_lm(), zoo.bytelevel_tokenizer()),
        ]
        self.saved = attnx.explain(*self.models[0], TEXT, references="gradient")

    def value(self) -> Any:
        return self.chance.choice(HOSTILE) if self.chance.random() < 0.7 else self.chance.choice(SAID)

    def run(self, count: int) -> None:
        kinds = [self.python, self.python, self.files, self.files, self.command]
        with contextlib.chdir(self.folder), warnings.catch_warnings():  # a name that is drawn may be a file's
            warnings.simplefilter("ignore")
            for number in range(count):
                kinds[number % len(kinds)]()

    def python(self) -> None:
        self.counts["python"] += 1
        kind = self.chance.randrange(5)
        model, tokenizer = self.chance.choice(self.models)
        if kind == 0:
            function = self.chance.choice([attnx.raw, attnx.rollout, attnx.flow])
            names = (
                "layer",
                "position",
                "head",
                "residual",
                "normalize",
                "drop_sink",
                "solver",
                "threads",
                "discard_ratio",
            )
            self.attempt(function, self.array(), **self.options(names))
        elif kind == 1:
            given = self.chance.choice([TEXT, self.value(), self.chance.choice(TEXTS), {"input_ids": self.value()}])
            self.attempt(attnx.explain, model, tokenizer, given, **self.options(OPTIONS))
        elif kind == 2:
            function = self.chance.choice([attnx.compare, attnx.faithfulness, attnx.head_atlas])
            self.attempt(function, model, tokenizer, self.chance.choice(TEXTS), progress=False, **self.options(OPTIONS))
        elif kind == 3:
            names = ("max_new_tokens", "continuation", "methods", "layer", "head", "do_sample", "num_beams", "nonsense")
            self.attempt(
                attnx.explain_generation, model, tokenizer, TEXT, **{"max_new_tokens": 2, **self.options(names)}
            )
        else:
            path = self.chance.choice([self.value(), self.folder / "x.safetensors", self.folder])
            call = self.chance.choice([self.saved.save, attnx.Explanation.load, self.saved.to_html, read_texts])
            self.attempt(call, path)

    def options(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {self.chance.choice(names): self.value() for _ in range(self.chance.randrange(1, 3))}

    def array(self) -> Any:
        shape = self.chance.choice([(2, 2, 3, 3), (1, 1, 1, 1), (3, 3), (2, 2, 3, 4), (0, 1, 2, 2), (2, 0, 2, 2), ()])
        made = np.random.default_rng(self.chance.randrange(9)).random(shape)
        made = made / made.sum(-1, keepdims=True) if made.ndim and made.size else made
        return self.chance.choice([made, made, torch.tensor(made), -made, made * np.nan, self.value()])

    def files(self) -> None:
        self.counts["files"] += 1
        kind = self.chance.randrange(4)
        if kind == 0:
            path = (
                self.folder
                / f"texts{self.chance.choice(['.txt', '.csv', '.tsv', '.jsonl', '.json', '.txt.gz', '.jsonl.gz'])}"
            )
            content = self.content()
            path.write_bytes(gzip.compress(content) if path.suffix == ".gz" and self.chance.random() < 0.7 else content)
            self.attempt(read_texts, path, column=self.chance.choice([None, "text", self.value()]), limit=2)
        elif kind == 1:
            path = self.folder / "pronouns.csv"
            path.write_bytes(b"sentence,candidates,answer\n" * self.chance.randrange(2) + self.content())
            self.attempt(read_pronouns, path)
        elif kind == 2:
            path = self.folder / "saved.safetensors"
            self.saved.save(path)
            path.write_bytes(self.damaged(path.read_bytes()))
            self.attempt(attnx.Explanation.load, path)
        else:
            path = self.folder / "run" / "_attnx.json"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.content())
            self.attempt(attnx.Run.load, path.parent)

    def content(self) -> bytes:
        lines = [
            *(
                b"text,label",
                b"a film,1",
                b'"open quote',
                b"a\tb\tc",
                b"sentence",
                DEEP.encode(),
                b"\xff\xfe\x00",
                b"\0",
            ),
            *(
                b'{"text": "a"}',
                b'{"text": 1}',
                b'{"text": 1e999}',
                b"[1]",
                b"NaN",
                b'{"kind": "attnx run"}',
                b'{"kind": "attnx run", "format": 1, "question": 7, "shard_rows": null}',
            ),
            *(b'{"sentence": Infinity}', "‮é".encode(), b"", b",,,,", b"\r\r\n", b"x" * 200_000, b"1" * 5000),
        ]
        whole = b"\n".join(self.chance.choice(lines) for _ in range(self.chance.randrange(6)))
        return self.damaged(whole) if self.chance.random() < 0.3 else whole

    def damaged(self, content: bytes) -> bytes:
        changed = bytearray(content)
        for _ in range(self.chance.randrange(1, 6)):
            if changed:
                changed[self.chance.randrange(len(changed))] = self.chance.randrange(256)
        return bytes(changed[: self.chance.randrange(len(changed) + 1)] if self.chance.random() < 0.3 else changed)

    def command(self) -> None:
        self.counts["command line"] += 1
        words = [self.chance.choice(COMMANDS[:3] if self.chance.random() < 0.7 else COMMANDS)]
        for _ in range(self.chance.randrange(5)):
            words.append(self.chance.choice(FLAGS))
            words.append(self.argument()) if self.chance.random() < 0.7 else None
        words.append(self.chance.choice([TEXT, "-", self.argument()]))
        given = io.TextIOWrapper(io.BytesIO(self.content()), encoding="utf-8")
        shown = io.StringIO()
        before, sys.argv, sys.stdin = (sys.argv, sys.stdin), ["attnx", *words], given
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), contextlib.chdir(self.folder):
                command_line()
        except SystemExit:
            pass
        except BaseException as error:
            self.failures.append(_told("attnx", words, {}, error))
        finally:
            sys.argv, sys.stdin = before
        if "Traceback" in shown.getvalue() or "\x1b]" in shown.getvalue():
            self.failures.append(f"attnx {words!r:.300} printed {shown.getvalue()[-300:]!r}")

    def argument(self) -> str:
        value = str(self.chance.choice([*SAID, *(one for one in HOSTILE if isinstance(one, (str, float)))]))
        return value.replace("\0", "").encode(errors="replace").decode()[:9000]

    def attempt(self, call: Callable[..., Any], *given: Any, **named: Any) -> None:
        try:
            found = call(*given, **named)
            json.dumps(repr(found))
        except AttnxError as error:
            if len(str(error)) > 700:
                self.failures.append(f"{call} gave a message of {len(str(error))} characters")
        except Exception as error:
            self.failures.append(_told(getattr(call, "__name__", str(call)), given[-1:], named, error))


def _told(name: str, given: Any, named: dict[str, Any], error: BaseException) -> str:
    at = traceback.extract_tb(error.__traceback__)
    ours = [one for one in at if f"{os.sep}attnx{os.sep}" in one.filename] or list(at)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    try:
        shown = f"{given!r:.200} {named!r:.200}"
    except Exception:
        shown = f"{', '.join(named)} of more digits than Python writes"
    return f"{type(error).__name__} at {where}: {str(error)[:120]!r} from {name} {shown}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(asked.seed, Path(folder))
        fuzz.run(asked.count)
    for one in fuzz.failures:
        print(one)
    print(f"{sum(fuzz.counts.values())} inputs ({fuzz.counts}), {len(fuzz.failures)} that ended in another way")
    sys.exit(bool(fuzz.failures))


if __name__ == "__main__":
    main()
