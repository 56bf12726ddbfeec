"""Saves and loads a trained model: config, tokenizer and half-precision safetensors; no pickle, no network."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from attnx.errors import FileFormatError, first_line
from attnx.interrupts import uninterrupted
from attnx.tasks.saved import saved_model
from attnx.tasks.shipped import shipped_directory
from attnx.tasks.verb_number.lstm import LstmForSequenceClassification
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification
from attnx.tasks.word_tokenizer import BEGIN, END, PAD, UNKNOWN, save_tokenizer, wrap

Classifier = TypeVar("Classifier", VerbNumberForSequenceClassification, LstmForSequenceClassification)

EMBEDDED = "the model embedded in attnx"

TAG_EXAMPLES = {
    "NN": "thing", "NNS": "things", "NNP": "john", "NNPS": "americans",
    "JJ": "good", "JJR": "better", "JJS": "best", "RB": "often", "RBR": "more", "RBS": "most",
    "VB": "make", "VBZ": "makes", "VBP": "make", "VBG": "making", "VBN": "made", "VBD": "said", "MD": "can",
    "CC": "and", "CD": "ten", "DT": "the", "EX": "there", "FW": "la", "IN": "of", "LS": "1", "PDT": "all",
    "POS": "'s", "PRP": "he", "PRP$": "his", "RP": "up", "SYM": "=", "UH": "oh", "WDT": "which", "WP": "who",
    "WRB": "where",
}  # fmt: skip
"""The Penn Treebank tags that stand for rare words, each with a frequent word of its kind."""

_ATTACHED = r"""(?<=\w)(?:[.,;:!?)"”…]+|'s)(?=\s|$)|(?<=\s)[("“](?=\w)|^[("“](?=\w)"""
"""What a writer attaches to a word and the data sets apart: "keys," is "keys ,", "John's" is "john 's"."""


def vocabulary(sentences: Iterable[str], size: int | None = None) -> list[str]:
    """The words of the sentences, most frequent first and then by the alphabet; at most `size` of them."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return [word for word in ranked if word not in TAG_EXAMPLES][:size]


def build_tokenizer(words: Iterable[str], positions: int) -> PreTrainedTokenizerFast:
    """A fast tokenizer of these words, the tags and four special tokens; `positions` is the model's longest input."""
    entries = [PAD, UNKNOWN, BEGIN, END, *TAG_EXAMPLES, *words]
    vocab = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    # Added tokens are found before the text is lowered, which is what keeps the tags in capitals.
    tokenizer.add_tokens([AddedToken(tag, single_word=True, normalized=False) for tag in TAG_EXAMPLES])
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_ATTACHED), "isolated"), pre_tokenizers.WhitespaceSplit()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=[(BEGIN, vocab[BEGIN]), (END, vocab[END])]
    )
    return wrap(tokenizer, positions)


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
    """Where the shipped model lies."""
    return shipped_directory("verb-number")


def load(directory: Path) -> tuple[VerbNumberForSequenceClassification, PreTrainedTokenizerFast]:
    """A verb-number model that `save` wrote, in float32 and in evaluation mode, and its tokenizer."""
    # In one piece: safetensors makes a ValueError of a Ctrl-C, and torch's default device must not stay changed.
    return uninterrupted(lambda: _load(saved_model(directory), VerbNumberForSequenceClassification))


def load_lstm(directory: Path) -> tuple[LstmForSequenceClassification, PreTrainedTokenizerFast]:
    """The same for an LSTM."""
    return uninterrupted(lambda: _load(saved_model(directory), LstmForSequenceClassification))


def _load(directory: Path, kind: type[Classifier]) -> tuple[Classifier, PreTrainedTokenizerFast]:
    config = kind.config_class.from_pretrained(directory)
    config.name_or_path = _name(directory)
    try:
        model = _with_weights(kind, config, directory / "model.safetensors")
    except (SafetensorError, RuntimeError) as error:
        raise FileFormatError(
            f"the weights in {directory} are not of a verb-number model: {first_line(error)}"
        ) from error
    tokenizer = wrap(Tokenizer.from_file(str(directory / "tokenizer.json")), config.max_position_embeddings)
    return model.eval(), tokenizer


def _name(directory: Path) -> str:
    """What results say whose they are."""
    with demo_directory() as demo:
        return EMBEDDED if directory == demo else str(directory)


def _with_weights(kind: type[Classifier], config: Any, path: Path) -> Classifier:
    with torch.device("meta"):  # no weights, so none are drawn from the caller's random numbers
        model = kind(config)
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()}, assign=True)
    return model


def save(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a model and its tokenizer, the weights in half precision. The model in memory is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    save_tokenizer(tokenizer, directory)
    halves = {name: tensor.to(torch.float16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(halves, directory / "model.safetensors", metadata={"format": "pt"})
