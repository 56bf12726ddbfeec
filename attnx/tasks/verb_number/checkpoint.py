"""Saves and loads a trained model: config, tokenizer and half-precision safetensors; no pickle, no network."""

from __future__ import annotations

import copy
import json
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from attnx.errors import FileFormatError
from attnx.tasks.verb_number.config import VerbNumberConfig
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification
from attnx.tasks.verb_number.tokenizer import wrap


def load_demo() -> tuple[VerbNumberForSequenceClassification, PreTrainedTokenizerFast]:
    """The model that ships with attnx, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> logits = model(**tokenizer("the key to the cabinets", return_tensors="pt")).logits
    >>> model.config.id2label[int(logits.argmax())]
    'singular'
    """
    with demo_directory() as directory:
        return load(directory)


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies; a temporary copy when the package is imported from an archive."""
    return as_file(files("attnx.tasks.verb_number") / "demo")


def load(directory: Path) -> tuple[VerbNumberForSequenceClassification, PreTrainedTokenizerFast]:
    """A verb-number model that `save` wrote, in float32 and in evaluation mode, and its tokenizer."""
    config = VerbNumberConfig.from_pretrained(saved_model(directory))
    with torch.random.fork_rng(devices=[]):  # the first weights are drawn at random and replaced at once
        model = VerbNumberForSequenceClassification(config)
    try:
        model.load_state_dict(load_file(directory / "model.safetensors"))
    except (SafetensorError, RuntimeError) as error:
        raise FileFormatError(f"the weights in {directory} are not of a verb-number model: {error}") from error
    tokenizer = wrap(Tokenizer.from_file(str(directory / "tokenizer.json")), config.max_position_embeddings)
    return model.eval(), tokenizer


def save(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a model and its tokenizer, the weights in half precision. The model in memory is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    _name_tokenizer_for_every_version(directory / "tokenizer_config.json")
    halves = {name: tensor.to(torch.float16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(halves, directory / "model.safetensors", metadata={"format": "pt"})


def saved_model(directory: Path) -> Path:
    """The directory itself, when it holds a saved model and its tokenizer."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (directory / name).is_file():
            raise FileFormatError(f"{directory} is not a directory of a saved model: {name} is missing")
    return directory


def _name_tokenizer_for_every_version(path: Path) -> None:
    """transformers 5 writes a class name that transformers 4 does not know; both know the older name."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("backend", None)
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
