"""A small data set in Linzen's format and a model of two tiny layers, so that training takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number import TAGS, VerbNumberConfig
from attnx.demo_models.verb_number_data import generate
from examples.training.verb_number import Recipe


def write_lines(path: Path, beginnings) -> Path:
    path.write_text("".join(f"{TAGS[one.label]}\t{one.text}\n" for one in beginnings), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> list[Path]:
    """A natural file and one whose every line has two attractors."""
    directory = tmp_path_factory.mktemp("linzen")
    return [
        write_lines(directory / "natural.tsv", generate(160, seed=11)),
        write_lines(directory / "numpred.test.2.tsv", generate(60, seed=12, attractors=2)),
    ]


@pytest.fixture
def tiny() -> VerbNumberConfig:
    return VerbNumberConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=40)


@pytest.fixture
def short() -> Recipe:
    return Recipe(
        epochs=2, batch=16, warmup_steps=5, attractor_lines=20, generated=30, joined=10, prefixes=20, noun_phrases=10
    )


@pytest.fixture
def body(tmp_path):
    """A pretrained encoder, as far as the code can see: a random BERT of two tiny layers."""
    directory = tmp_path / "body"
    directory.mkdir()
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *generator.words(), "##s", "thing", "things"]
    (directory / "vocab.txt").write_text("\n".join(dict.fromkeys(entries)), encoding="utf-8")
    BertTokenizerFast(str(directory / "vocab.txt")).save_pretrained(directory)
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(dict.fromkeys(entries)),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
        )
    ).save_pretrained(directory)
    return directory
