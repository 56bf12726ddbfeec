"""The table over two tiny models, against numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import attnx
from attnx.attribution import PAPER, blankout, cases
from attnx.demo_models.verb_number import VerbNumberForSequenceClassification
from attnx.demo_models.verb_number_data import generate
from attnx.methods import METHODS
from attnx.paper import sentences, table1
from attnx.paper.subject import subject
from attnx.paper.tables import CORRECTED
from examples.training.study import Trained, over_trainings, subject_over_trainings
from tests import verb_number_zoo as zoo

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def few():
    return sentences.prepare(zoo.model(), zoo.tokenizer(), generate(12, seed=1), "the generator, seed 1")


@pytest.fixture(scope="module")
def models():
    """The zoo's, and another training of it, as far as the code can see: the same weights, moved a little."""
    second = VerbNumberForSequenceClassification(zoo.model().config).eval()
    second.load_state_dict(zoo.model().state_dict())
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter += 0.3 * parameter.std() * torch.randn_like(parameter) if parameter.numel() > 1 else 0
    return {"one": zoo.model(), "two": second}


@pytest.fixture(scope="module")
def trained(models, few):
    return [Trained(name, "plain", model, zoo.tokenizer(), few) for name, model in models.items()]


@pytest.fixture(scope="module")
def over_two(trained):
    return over_trainings(table1, trained, protocols=[CORRECTED])


def by_hand(model, few, method):
    """For each layer the mean of Spearman's correlations on words, sentence by sentence through the front door."""
    asked = cases(model, zoo.tokenizer(), few.prepared)
    references = [one.scores for one in blankout(model, zoo.tokenizer(), asked, **PAPER)]
    values = []
    for one, reference in zip(few.beginnings, references, strict=True):
        rows = np.abs(attnx.explain(model, zoo.tokenizer(), one.text, methods=method, references=())[method])
        rows = rows.round(9) if "flow" in method else rows
        values.append([stats.spearmanr(row[1:-1], reference[1:-1])[0] for row in rows])
    return np.nanmean(values, 0)


@pytest.mark.parametrize("method", ["raw", "flow", "gradient_rollout", "alti_logit"])
def test_mean_and_spread_over_two_models_are_those_by_hand(over_two, models, few, method):
    first, second = (by_hand(model, few, method) for model in models.values())
    for layer in (1, 2, 3):
        cell = over_two.cell("plain", "corrected", method, layer)
        one, other = first[layer - 1], second[layer - 1]
        assert cell.values == pytest.approx((one, other), abs=1e-6)
        assert cell.mean == pytest.approx((one + other) / 2, abs=1e-6)
        assert cell.deviation == pytest.approx(abs(one - other) / 2**0.5, abs=1e-6)
    assert not np.allclose(first, second, atol=1e-3)


def test_the_papers_rows_stand_first_and_those_about_the_answer_behind_them(over_two):
    target_specific = [name for name in METHODS.names() if METHODS[name].target_specific]
    assert over_two.methods == ("raw", "rollout", "flow", *target_specific)
    assert set(target_specific) >= {"gradient_rollout", "alti_logit"}
    assert over_two.published("alti_logit") == [None] * 3


def test_two_models_of_one_name_are_refused(trained):
    with pytest.raises(attnx.AttnxError, match="two models are called one; rename the folder of one"):
        over_trainings(table1, [trained[0], trained[0]], protocols=[CORRECTED])


def test_the_subject_check_of_each_model_is_its_own(trained, few):
    found = subject_over_trainings(trained)
    assert found.same_sentences
    alone = subject(trained[1].model, zoo.tokenizer(), few)
    for kind in alone.predictions:
        for measure in alone.methods:
            expected = alone.share(measure, "subject", kind).mean
            assert found.tables["two"].share(measure, "subject", kind).mean == pytest.approx(expected, abs=1e-5)
    shares = [parts["subject"].mean for parts in found.shares("plain")["right", "rollout"].values()]
    assert f"{sum(shares) / len(shares):.1%}" in found.to_text()
