"""The models that ship, by name, and the tokenizers of whole words that some of them use."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import transformers
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from attnx._signals import uninterrupted
from attnx.errors import FileFormatError

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "verb-number": "verb_number",
        "planted-patch": "planted_patch",
        "recall": "recall",
        "dates": "dates",
        "picture-question": "picture_question",
        "planted-tone": "planted_tone",
    }
)
"""What `--model` calls them → the package in whose folder `demo` each lies."""


def shipped_directory(name: str) -> AbstractContextManager[Path]:
    """Where a shipped model lies; a temporary copy when the package is imported from an archive."""
    return as_file(files("attnx.demo_models") / "weights" / SHIPPED[name])


def embedded_name(name: str) -> str:
    """What results say whose they are: no folder of this machine."""
    return f"the {name} model embedded in attnx"


def load_halves(name: str, kind: Any) -> tuple[Any, Any]:
    """A shipped model of text of that transformers class, in float32 and in evaluation mode, and its tokenizer."""
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(lambda: _load_halves(name, kind))


def _load_halves(name: str, kind: Any) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    with shipped_directory(name) as directory, quiet():
        model = kind.from_pretrained(directory).float().eval()
        model.config.name_or_path = embedded_name(name)
        return model, AutoTokenizer.from_pretrained(directory)


def save_halves(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a model and its tokenizer so that `--model` takes them. The model in memory is left as it is."""

    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        save_tokenizer(tokenizer, directory)


def saved_model(directory: Path) -> Path:
    """The directory itself, when it holds a saved model and its tokenizer."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (directory / name).is_file():
            raise FileFormatError(f"{directory} is not a directory of a saved model: {name} is missing")
    return directory


@contextmanager
def quiet() -> Iterator[None]:
    """No bars for models of this size, and no remarks on what they do not need."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


PAD, UNKNOWN, BEGIN, END = "<pad>", "<unk>", "<bos>", "<eos>"


def wrap(tokenizer: Tokenizer, positions: int) -> PreTrainedTokenizerFast:
    """The transformers face of a word-level tokenizer; `positions` is the model's longest input."""
    names: dict[str, Any] = {"pad_token": PAD, "unk_token": UNKNOWN, "bos_token": BEGIN, "eos_token": END}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=positions,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **names,
    )


def save_tokenizer(tokenizer: Any, directory: Path) -> None:
    """Write it so that every version of transformers reads it."""
    tokenizer.save_pretrained(directory)
    path = directory / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":  # transformers 4 does not know it; 5 knows both
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("backend", None)
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
