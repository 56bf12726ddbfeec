"""Wrong calls, and the class of the error that each is refused with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import attnx
from attnx.paper.table import PaperTable
from tests import zoo
from tests.regression import present
from tests.regression.group import Group, Outcome
from tests.regression.models import picture, subject
from tests.regression.on_arrays import weights
from tests.regression.on_families import METHODS
from tests.regression.options import stored
from tests.regression.present import probe_pronoun

OF_A_METHOD: list[dict[str, Any]] = [
    {"layer": 0},
    {"layer": 9},
    {"layer": "2"},
    {"layer": 1.5},
    {"position": 7},
    {"position": -8},
    {"position": []},
    {"position": [0, 7]},
    {"position": True},
    {"head": 3},
    {"head": -1},
    {"head": "sum"},
    {"residual": 1.5},
    {"residual": -0.1},
    {"residual": "half"},
    {"normalize": "row"},
    {"normalize": "prefix"},
    {"drop_sink": True},
]
OF_ROLLOUT: list[dict[str, Any]] = [
    {"down_to": 0},
    {"down_to": 5},
    {"down_to": 3, "layer": 2},
    {"discard_ratio": 1.0},
    {"discard_ratio": -0.1},
    {"discard_ratio": "x"},
    {"discard_ratio": 0.5, "keep_position": 7},
]
OF_FLOW: list[dict[str, Any]] = [{"solver": "simplex"}, {"threads": 0}, {"threads": 1.5}, {"limit": 0.0, "layer": 4}]


def groups() -> Iterator[Group]:
    yield Group("mistakes", lambda: {name: _refused(call) for name, call in _calls()})


def _refused(call: Callable[[], Any]) -> Outcome:
    try:
        call()
    except Exception as error:  # what is raised is what is asked
        return type(error).__name__
    return "no error"


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from _of_methods()
    yield from _of_explain()
    yield from _of_studies()


def _of_methods() -> Iterator[tuple[str, Callable[[], Any]]]:
    given = weights("everything")
    for method, call in METHODS.items():
        for options in OF_A_METHOD + {"rollout": OF_ROLLOUT, "flow": OF_FLOW}.get(method, []):
            yield f"{method} {stored(options)}", partial(call, given, **options)
        for name, attention in _no_attention().items():
            yield f"{method} of {name}", partial(call, attention)
    causal = weights("causal")
    yield "sink of one position", partial(present.sink_share, causal[..., :1, :1])
    yield "sink of an encoder", partial(present.sink_share, given)
    yield "graph of each head", partial(attnx.to_networkx, given, head="all")
    yield "graph with too few tokens", partial(attnx.to_networkx, given, ["a"])
    yield "cut of each head", partial(present.minimum_cut, given, layer=1, position=0, input_position=0, head="all")
    contradiction = present.held(torch.from_numpy(given), torch.from_numpy(given[:, 0] > 2))
    yield "a mask that contradicts", partial(attnx.rollout, contradiction, normalize="receptive_field")
    one = subject("gpt2")
    merged = present.merged(one.model, "mean", **one.inputs)
    yield "another merger than captured", partial(attnx.rollout, merged, head="max")
    yield "a head of merged heads", partial(attnx.rollout, merged, head=0)
    yield "a batch", partial(attnx.capture, one.model, **{k: v.repeat(2, 1) for k, v in one.inputs.items()})
    yield "no tensors", partial(attnx.capture, one.model, input_ids=[1, 2])
    yield "an unknown merger", partial(present.merged, one.model, "sum", **one.inputs)
    yield "no attention", partial(attnx.capture, torch.nn.Linear(2, 2), input=torch.ones(1, 2))


def _no_attention() -> dict[str, Any]:
    given = weights("everything")
    negative, nan = given.copy(), given.copy()
    negative[1, 0, 2, 3], nan[2, 1, 0, 0] = -0.1, np.nan
    return {
        "three axes": given[0],
        "five axes": given[None],
        "no square": given[..., :4],
        "nothing": given[:0],
        "rows above 1": given * 1.1,
        "negative weights": negative,
        "NaN": nan,
        "a text": "attention",
        "None": None,
    }


def _of_explain() -> Iterator[tuple[str, Callable[[], Any]]]:
    one, text = subject("classifier"), "the key to the cabinets"
    ask = partial(attnx.explain, one.model, one.processor)
    for options in (
        {"methods": ()},
        {"layer": 4},
        {"position": 99},
        {"head": 4},
        {"target": "NEUTRAL"},
        {"target": 2},
        {"target": (0, 1, 2)},
        {"references": "saliency"},
        {"references": {"blankout": {"units": 1}}},
        {"target": (0, 0), "references": "gradient"},
        {"references": {"blankout": {"score": "loss"}}},
        {"normalize": "row"},
        {"normalize": "prefix"},
        {"drop_sink": True},
        {"discard_ratio": 0.5, "methods": "raw"},
        {"discard_ratio": 1.0},
        {"residual": 2.0},
        {"batch_size": 0},
    ):
        yield f"explain {stored(options)}", partial(ask, text, **options)
    for name, given in {"an empty text": "", "no texts": [], "too long": "key " * 80, "a number": 3}.items():
        yield f"explain {name}", partial(ask, given)
    yield (
        "explain without a mask",
        lambda: attnx.explain(subject("masked_lm").model, zoo.wordpiece_tokenizer(), "[MASK] key [MASK]"),
    )
    yield "explain with another tokenizer", partial(attnx.explain, one.model, zoo.bytelevel_tokenizer(), text)
    yield "explain no model", partial(attnx.explain, torch.nn.Linear(2, 2), one.processor, text)
    vit = subject("vit_classifier")
    yield "explain a text as an image", partial(attnx.explain, vit.model, vit.processor, "a cat")
    yield "explain an image as a text", partial(ask, picture())
    yield "a target without a head", lambda: attnx.explain(subject("bert").model, one.processor, text, target=1)
    found = attnx.explain(one.model, one.processor, text, methods=("raw", "rollout"), layer=2)
    yield "a method that was not asked for", lambda: found["flow"]
    yield "a layer that was not asked for", partial(found.scores, "raw", 1)
    yield "a head of merged scores", partial(found.scores, "raw", 2, 1)
    yield "a map that was not kept", found.matrix
    yield "a file that is none", partial(attnx.Explanation.load, __file__)
    yield "a file that is not there", partial(attnx.Explanation.load, "nowhere.safetensors")


def _of_studies() -> Iterator[tuple[str, Callable[[], Any]]]:
    one, texts = subject("classifier"), ["the key to the cabinets"]
    for name, study in {
        "compare": attnx.compare,
        "faithfulness": attnx.faithfulness,
        "head_atlas": attnx.head_atlas,
    }.items():
        ask = partial(study, one.model, one.processor, progress=False)
        yield f"{name} of nothing", partial(ask, [])
        yield (
            f"{name} with an unknown reference",
            partial(ask, texts, **{"references" if name == "faithfulness" else "against": "saliency"}),
        )
        yield f"{name} at no layer", partial(ask, texts, layer=9)
        yield f"{name} of a number", partial(ask, [3])
    yield "compare by no measure", partial(attnx.compare, one.model, one.processor, texts, measure="cosine")
    yield "compare with nothing", partial(attnx.compare, one.model, one.processor, texts, against=())
    yield "faithfulness in no steps", partial(attnx.faithfulness, one.model, one.processor, texts, steps=0)
    yield "an atlas of one head", partial(attnx.head_atlas, one.model, one.processor, texts, head=1)
    for kind in (attnx.Comparison, attnx.Faithfulness, attnx.HeadAtlas, PaperTable):
        yield f"{kind.__name__.removeprefix('Paper')} of another file", partial(kind.from_json, "{}")
    yield "generation by a classifier", partial(attnx.explain_generation, one.model, one.processor, texts[0])
    writer = subject("causal_lm")
    write = partial(attnx.explain_generation, writer.model, writer.processor)
    yield "generation of each head", partial(write, texts[0], head="all")
    yield "generation of no tokens", partial(write, texts[0], max_new_tokens=0)
    yield "generation of a list", partial(write, [3])
    probe = partial(probe_pronoun, subject("masked_lm").model, zoo.wordpiece_tokenizer())
    names = {"candidates": ("author", "Sara"), "pronouns": ("his", "her")}
    sentence = "the author talked to Sara about [MASK] book"
    yield "a probe without a mask", partial(probe, "the author talked to Sara", **names)
    yield "a probe without its candidate", partial(probe, "Sara said [MASK] book", **names)
    yield "a probe of one candidate", partial(probe, sentence, candidates=("author",), pronouns=("his", "her"))
    yield "a probe by no span", partial(probe, sentence, **names, span="max")
    demo = subject("verb_number")
    yield "a probe of a classifier", partial(probe_pronoun, demo.model, demo.processor, sentence, **names)
