"""Tokenizers of whole words, for the models that attnx trains itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

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
