"""Nothing may reach a hub; assets are used where they are pointed to, and a test that skips says why.

No instruction may kill the suite, no test leaves a child behind, and all cores work: see half_precision.py, children.py
and workers.py.
"""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import NoReturn

os.environ["HF_HUB_OFFLINE"] = "1"
# A home may be missing, or not be ours to write; what the libraries keep is kept elsewhere.
os.environ["HF_HOME"] = str(Path(gettempdir()) / f"attnx-tests-{os.getpid()}")

from tests import half_precision

half_precision.settle()

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests import workers
from tests.browser import browser as browser
from tests.children import Children

# The models here are tiny: a second thread costs them more than it brings.
torch.set_num_threads(1)

# A developer's runs look for new counter-examples; a landing must not depend on luck. On a busy machine neither fails
# because an example took its time.
untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("developer", **untimed)
settings.register_profile("ci", derandomize=True, **untimed)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    return workers.number(config)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(workers.Workers())
    # By default SIGTERM ends Python at once, and nobody would end the children.
    signal.signal(signal.SIGTERM, _told_to_end)


def _told_to_end(*_: object) -> NoReturn:
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)  # a second one would break into the ending
    pytest.exit("told to end by SIGTERM", returncode=143)


def pytest_report_header() -> str:
    return half_precision.report()


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts processes; ends what is left of them after the test."""
    started = Children()
    yield started
    started.end()


@pytest.fixture(scope="session")
def assets() -> Path:
    folder = os.environ.get("ATTNX_ASSETS")
    if not folder:
        pytest.skip("ATTNX_ASSETS does not point to the shared data and checkpoints")
    return Path(folder)


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a page or an example loads a model by its hub id, a tiny one stands in: there is no network here."""
    import transformers

    from tests import two_towers, zoo

    stand_ins = {
        transformers.AutoTokenizer: lambda name: copy.deepcopy(
            zoo.bytelevel_tokenizer() if name == "gpt2" else zoo.wordpiece_tokenizer()
        ),
        transformers.AutoModelForSequenceClassification: lambda name: zoo.deep(zoo.classifier()),
        transformers.AutoModelForMaskedLM: lambda name: zoo.deep(zoo.masked_lm()),
        transformers.AutoModelForCausalLM: lambda name: zoo.causal_lm(),
        transformers.AutoModel: lambda name: (
            two_towers.two_towers("clip") if "clip" in name else zoo.deep(zoo.classifier()).bert
        ),
        transformers.AutoProcessor: lambda name: two_towers.Processor(),
        transformers.AutoModelForQuestionAnswering: lambda name: zoo.with_head("BertForQuestionAnswering"),
        transformers.AutoModelForMultipleChoice: lambda name: zoo.with_head("BertForMultipleChoice"),
        transformers.AutoModelForTokenClassification: lambda name: zoo.with_head("BertForTokenClassification"),
    }
    for auto, stand_in in stand_ins.items():
        monkeypatch.setattr(
            auto,
            "from_pretrained",
            lambda name, *rest, load=auto.from_pretrained, stand_in=stand_in, **options: (
                load(name, *rest, **options) if Path(name).exists() else stand_in(name)
            ),
        )
