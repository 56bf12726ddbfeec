"""The models that ship: where they lie, how they are loaded and written, and tokenizers of whole words for them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import transformers
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
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
"""What `--model` calls them → the folder of their weights."""


def shipped_directory(name: str) -> AbstractContextManager[Path]:
    """Where a shipped model lies; a temporary copy when the package is imported from an archive."""
    return as_file(files("attnx.demo_models") / "weights" / SHIPPED[name])


def embedded_name(name: str) -> str:
    """What results call a shipped model, instead of a folder of this machine."""
    return f"the {name} model embedded in attnx"


@dataclass(frozen=True)
class DemoModel:
    """A small model of a stock architecture that ships in half precision."""

    name: str
    architecture: str
    """Its class in transformers."""
    build_processor: Callable[[], Any]

    def load(self) -> tuple[Any, Any]:
        """The model, in float32 and in evaluation mode, and its processor."""
        # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
        return uninterrupted(self._load)

    def _load(self) -> tuple[Any, Any]:
        with shipped_directory(self.name) as directory, quiet():
            model = getattr(transformers, self.architecture).from_pretrained(directory).float().eval()
            model.config.name_or_path = embedded_name(self.name)
            return model, self.build_processor()

    def save(self, model: Any, directory: Path) -> None:
        """Write a model and its processor so that `--model` takes them. The model in memory is left as it is."""
        directory.mkdir(parents=True, exist_ok=True)
        with quiet():
            copy.deepcopy(model).half().save_pretrained(directory)
            processor = self.build_processor()
            for part in (processor, getattr(processor, "image_processor", None), getattr(processor, "tokenizer", None)):
                if part is not None:
                    part.save_pretrained(directory)
        for_every_version(directory)


_WITHOUT_VISION_MODEL = re.compile(r"^((?:model\.)?vision_tower\.)(?!vision_model\.)")


def for_every_version(directory: Path) -> None:
    """Let transformers 4 read what transformers 5 wrote.

    It does not know TokenizersBackend, image processors have a file of their own there, and weights of a vision tower
    longer names.
    """
    settings = _read(directory / "tokenizer_config.json")
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("backend", None)
    _write(directory / "tokenizer_config.json", settings)
    settings = _read(directory / "processor_config.json")
    settings.pop("image_processor", None)
    _write(directory / "processor_config.json", dict(sorted(settings.items())))
    weights = directory / "model.safetensors"
    tensors = load_file(weights) if weights.is_file() else {}
    if any(map(_WITHOUT_VISION_MODEL.match, tensors)):
        renamed = {_WITHOUT_VISION_MODEL.sub(r"\1vision_model.", name): tensor for name, tensor in tensors.items()}
        weights.write_bytes(serialize(renamed, {"format": "pt"}))


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _write(path: Path, settings: dict[str, Any]) -> None:
    if settings:
        path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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


def word_tokenizer(
    entries: Sequence[str], positions: int, template: str, *, lowercase: bool = False, special: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """A token a word, with the begin and end tokens of the template around the text `$A`."""
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.add_special_tokens(list(special))
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    around = [(token, vocabulary[token]) for token in template.split() if token in vocabulary]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=around)
    return wrap(tokenizer, positions)


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
