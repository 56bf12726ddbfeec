"""Figures are files with the sentence in them, drawn without a screen."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection

import attnx
from attnx.errors import InputError
from attnx.paper import figure1, figure2, figure3, model_title, save_picture
from attnx.paper.figures import heat_maps, layered_graphs
from attnx.paper.sentences import PAPER_SENTENCES
from attnx.views.plots import FAINTEST, THICKEST
from tests import verb_number_zoo as zoo
from tests.results import examples


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "texts", "words"),
    [
        (figure1, "the boxes in it", "<bos> the boxes in it <eos> input"),
        (figure2, ["the boxes in it", "some key"], "<bos> the boxes in it <eos> some key"),
        (figure3, ["the boxes in it", "some key"], "<bos> the boxes in it <eos> some key"),
    ],
)
def test_both_files_are_written_and_the_svg_holds_the_tokens_and_a_caption(tmp_path, draw, texts, words):
    png, svg = save_picture(draw(zoo.model(), zoo.tokenizer(), texts), tmp_path / "figure")
    assert png.read_bytes().startswith(b"\x89PNG")
    drawn = {"".join(one.itertext()).strip() for one in ElementTree.parse(svg).iter() if one.tag.endswith("text")}
    assert set(words.split()) <= drawn
    caption = " ".join(" ".join(sorted(drawn, key=len)[-3:]).split())
    assert "VerbNumberForSequenceClassification" in caption
    assert "“the boxes in it”" in caption


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begins"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("X.PDF", b"%PDF")])
def test_the_end_of_its_name_says_the_format(tmp_path, name, begins):
    (path,) = save_picture(heat_maps([examples.explanation()], ["flow"]), tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().startswith(begins)
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_caption_names_the_model_by_what_readers_know():
    model, _ = attnx.load_demo()
    assert model_title(model) == "the model embedded in attnx (VerbNumberForSequenceClassification)"
    model.config.name_or_path = "/srv/models/my-own"
    assert model_title(model) == "my-own (VerbNumberForSequenceClassification)"


@pytest.mark.slow
def test_the_same_figure_is_the_same_file(tmp_path):
    first, second = (
        save_picture(figure1(zoo.model(), zoo.tokenizer(), "a key"), tmp_path / name)[1] for name in ("one", "two")
    )
    assert first.read_bytes() == second.read_bytes()


def test_the_papers_sentences_are_the_default():
    figure = figure2(zoo.model(), zoo.tokenizer())
    panels = [axes for axes in figure.axes if axes.images]
    for axes, text in zip(panels, PAPER_SENTENCES, strict=True):
        assert len(axes.get_xticklabels()) == len(text.split()) + 2


def test_the_last_layer_is_on_top_and_colours_are_the_cls_row():
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), zoo.TEXTS[0], methods="rollout")
    axes = heat_maps([explanation], ["rollout"]).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), explanation["rollout"])
    bottom, top = axes.get_ylim()
    assert bottom < top
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]


def test_line_width_is_the_share_of_what_leaves_a_node():
    weights = np.array([[[0.8, 0.2], [0.4, 0.4]]])
    figure = layered_graphs(["the", "key"], {"only": weights, "doubled": 2 * weights})
    for axes in figure.axes:
        (lines,) = (one for one in axes.collections if isinstance(one, LineCollection))
        widths = {
            tuple(map(tuple, path.vertices.astype(int).tolist())): width
            for path, width in zip(lines.get_paths(), lines.get_linewidths(), strict=True)
        }
        assert widths[(0, 0), (1, 0)] == pytest.approx(THICKEST)
        assert widths[(0, 1), (1, 0)] == pytest.approx(THICKEST / 4)
        assert widths[(0, 0), (1, 1)] == widths[(0, 1), (1, 1)] == pytest.approx(THICKEST * 0.5 / 0.8)


def test_no_line_is_drawn_for_next_to_nothing():
    weights = np.array([[[1 - FAINTEST / 2, FAINTEST / 2], [0.5, 0.5]]])
    axes = layered_graphs(["the", "key"], {"only": weights}).axes[0]
    assert len(axes.collections[0].get_paths()) == 3


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    figure = figure1(zoo.model(), zoo.tokenizer(), "a key")
    with pytest.raises(InputError, match="there is no directory"):
        save_picture(figure, tmp_path / "no" / "figure")


def test_no_sentence_is_an_error():
    with pytest.raises(InputError, match="at least one sentence"):
        heat_maps([], ["raw"])
