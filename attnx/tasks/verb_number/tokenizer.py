"""A word-level tokenizer for the verb-number task: `<bos> words <eos>`, lower case, rare words as POS tags.

The data has its rare words replaced by their part of speech ("the NN of NNP"), so the tags are words like any other,
and the only ones in capitals. A word that is not in the vocabulary becomes `<unk>`, which is also what blank-out puts
in a word's place. Offsets point into the text as it was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, BEGIN, END = "<pad>", "<unk>", "<bos>", "<eos>"

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


def wrap(tokenizer: Tokenizer, positions: int) -> PreTrainedTokenizerFast:
    """The transformers face of a word-level tokenizer."""
    names: dict[str, Any] = {"pad_token": PAD, "unk_token": UNKNOWN, "bos_token": BEGIN, "eos_token": END}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=positions,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **names,
    )
