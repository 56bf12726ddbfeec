"""Figure 4 shows the numbers of the probe: bars of the pronouns, a curve for each candidate, ties hollow."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attnx.errors import InputError
from attnx.paper import figure4
from attnx.paper.figures import AUTHOR, MARY
from attnx.pronouns import panels, probe_each
from attnx.pronouns.result import Candidate, Probe
from attnx.pronouns.view import COLORS
from tests import zoo


def test_bars_are_probabilities_and_what_candidates_add_and_curves_their_relevance():
    model, tokenizer = zoo.masked_lm(), zoo.wordpiece_tokenizer()
    figure = figure4(model, tokenizer)
    rows = [figure.axes[:5], figure.axes[5:]]
    for probe, (bars, parts, *curves) in zip(probe_each(model, tokenizer, [AUTHOR, MARY]), rows, strict=True):
        assert [bar.get_height() for bar in bars.patches] == pytest.approx(list(probe.relative.values()))
        assert [bar.get_height() for bar in parts.patches] == pytest.approx(list(probe.references["lrp"]))
        for axes, method in zip(curves, probe.methods, strict=True):
            lines = [line for line in axes.lines if not line.get_label().startswith("_")]
            assert [line.get_label() for line in lines] == [one.name for one in probe.candidates]
            drawn = np.stack([line.get_ydata() for line in lines], axis=1)
            np.testing.assert_allclose(drawn, probe.relevance[method])
            consistent = probe.verdicts(method).count("consistent")
            assert f"consistent in {consistent} of 3 layers" in axes.get_title()


def made(**changes):
    given = {
        "text": "The author talked to Sara about [MASK] book",
        "mask": 7,
        "candidates": (Candidate("author", (2,)), Candidate("Sara", (5,))),
        "probabilities": {"his": 0.1, "her": 0.3},
        "layers": (1, 2),
        "relevance": {"flow": np.array([[0.2, 0.3], [1.0, 1.0]])},
        "implies": {"her": "Sara"},
    }
    return Probe(**(given | changes))


def test_a_bar_has_the_colour_of_the_candidate_that_the_pronoun_speaks_for():
    bars, curves = panels([made()]).axes
    assert [to_hex(bar.get_facecolor()) for bar in bars.patches] == ["#999999", COLORS[1]]
    assert curves.lines[2].get_color() == COLORS[1]


def test_a_tie_is_hollow_and_counted():
    axes = panels([made()]).axes[1]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in hollow] == [([2], [1.0])] * 2
    assert "consistent in 1 of 2 layers, 1 undecided" in axes.get_title()


def test_without_implied_candidates_there_is_no_verdict():
    assert "consistent" not in panels([made(implies={})]).axes[1].get_title()


def test_no_sentence_is_an_error():
    with pytest.raises(InputError, match="at least one sentence"):
        panels([])


def test_the_papers_sentences_on_the_shared_checkpoint(assets):
    import transformers as hf

    folder = assets / "models" / "minilm-mlm"
    model = hf.AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    author, mary = probe_each(model, hf.AutoTokenizer.from_pretrained(folder), [AUTHOR, MARY])
    assert author.probabilities == pytest.approx({"his": 0.033, "her": 0.668}, abs=2e-3)
    assert mary.probabilities == pytest.approx({"his": 0.328, "her": 0.372}, abs=2e-3)
    assert (author.implied, mary.implied) == ("Sara", "Mary")
    assert author.top_candidates("raw")[-1] == "Sara"
