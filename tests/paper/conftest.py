from __future__ import annotations

import pytest

from attnx.demo_models.verb_number_data import generate
from attnx.paper import sentences
from tests import verb_number_zoo as zoo


@pytest.fixture(scope="session")
def few():
    """Twelve generated sentences, ready for the tiny model."""
    return sentences.prepare(zoo.model(), zoo.tokenizer(), generate(12, seed=1), "the generator, seed 1")
