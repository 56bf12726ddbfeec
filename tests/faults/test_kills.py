"""A run that is killed goes on, and its table is that of an undisturbed one, bit for bit."""

import os

import pytest

import attnx
from tests import verb_number_zoo
from tests.faults import kills

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")]


def test_a_run_killed_at_random_moments_goes_on(tmp_path):
    texts = kills.sentences(120)

    def explain(folder):
        return attnx.explain_dataset(
            verb_number_zoo.model(),
            verb_number_zoo.tokenizer(),
            texts,
            run_dir=folder,
            methods=("raw", "rollout"),
            shard_rows=16,
            progress=False,
        )

    found = kills.disturbed(explain, tmp_path, kills=3)
    assert found.kills == 3
    assert found.rows == 120
    assert (found.equal, found.files_equal, found.once) == (True, True, True)
    assert found.rewritten == 0
