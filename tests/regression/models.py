"""The models that cases run, in double precision; the zoo's own are left as they are."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image

import attnx
from tests import zoo
from tests.regression import present

SINGLE_PRECISION = " in float32"


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, what reads its inputs, and one input as the model takes it."""

    model: Any
    processor: Any
    inputs: dict[str, torch.Tensor]


class NoTokenizer:
    """The inputs are tokenised already; only names of tokens are asked for."""

    all_special_ids: tuple[int, ...] = ()
    unk_token_id = None

    def decode(self, ids: list[int]) -> str:
        return str(ids[0])

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(one) for one in ids]


@cache
def subject(name: str) -> Subject:
    """A family of the zoo, or one of the models below; with `SINGLE_PRECISION` behind its name as it is."""
    family = name.removesuffix(SINGLE_PRECISION)
    if family in zoo.FAMILIES:
        processor = None if family in zoo.IMAGE else NoTokenizer()
        made = Subject(zoo.model(family, fresh=True), processor, zoo.inputs(family))
    else:
        made = _WITH_HEAD[family]()
    return made if name.endswith(SINGLE_PRECISION) else _in_double(made)


def plain(name: str) -> torch.Tensor:
    """What the model gives by itself, without attnx."""
    one = subject(name)
    with torch.no_grad():
        output = one.model(**one.inputs)
    return output[0]


def picture() -> Image.Image:
    """A fixed picture, of another size than the models take."""
    pixels = np.random.RandomState(0).randint(0, 255, (40, 48, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def _in_double(one: Subject) -> Subject:
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in one.inputs.items()}
    return Subject(copy.deepcopy(one.model).double(), one.processor, inputs)


def _text(model: Any, tokenizer: Any, text: str) -> Subject:
    return Subject(model, tokenizer, dict(tokenizer(text, return_tensors="pt")))


def _distilbert() -> Subject:
    """A tiny DistilBERT that classifies, for Table 3."""
    torch.manual_seed(1)
    config = hf.DistilBertConfig(
        vocab_size=len(zoo.wordpiece_tokenizer()), dim=32, n_layers=2, n_heads=4, hidden_dim=64
    )
    return _text(hf.DistilBertForSequenceClassification(config).eval(), zoo.wordpiece_tokenizer(), "a witty film")


def _vit_classifier() -> Subject:
    torch.manual_seed(0)
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=3, **zoo.WIDTH)
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    model = hf.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4)
    return Subject(model, processor, dict(processor(picture(), return_tensors="pt")))


def _planted_patch() -> Subject:
    model, processor = present.planted_patch_demo()
    return Subject(model, processor, dict(processor(present.pictures(1, seed=5)[0].image, return_tensors="pt")))


_WITH_HEAD = {
    "verb_number": lambda: _text(*attnx.load_demo(), "the key to the cabinets"),
    "classifier": lambda: _text(zoo.classifier(fresh=True), zoo.wordpiece_tokenizer(), "the key to the cabinets"),
    "masked_lm": lambda: _text(zoo.masked_lm(fresh=True), zoo.wordpiece_tokenizer(), "the author said [MASK] film"),
    "roberta_masked_lm": lambda: _text(zoo.roberta_masked_lm(fresh=True), zoo.roberta_tokenizer(), "his <mask> book"),
    "causal_lm": lambda: _text(zoo.causal_lm(fresh=True), zoo.bytelevel_tokenizer(), "the key to the cabinets"),
    "distilbert_classifier": _distilbert,
    "vit_classifier": _vit_classifier,
    "planted_patch": _planted_patch,
}
