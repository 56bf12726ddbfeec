"""Relevance over the picture: at its size, in its place, in colours that everybody can read."""

import matplotlib
import numpy as np
import pytest
import transformers as hf
from matplotlib.figure import Figure
from PIL import Image

import attnx
from attnx.errors import ChoiceError, InputError
from attnx.views import image_panels, overlay
from attnx.views.image import COLOURS, colour_map, heat, layer_strip
from attnx.views.terminal import STOPS_AGAINST, STOPS_FOR
from tests import zoo
from tests.made import with_scores

CROP = hf.BitImageProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})


def photo(width=120, height=80):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8))


@pytest.fixture
def explanation():
    return attnx.explain(zoo.model("vit"), CROP, photo(), position=0)


def one_hot(explanation, index):
    return np.eye(len(explanation.positions))[index]


def test_a_patch_heats_its_box_and_nothing_else(explanation):
    patch = explanation.positions[7]
    left, top, right, bottom = patch.box
    spread = heat(explanation, one_hot(explanation, 7), smooth=False)
    assert spread.shape == (80, 120)
    rows, columns = np.nonzero(spread == 1)
    edges = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert edges == (left, top, right, bottom) == (60, 24, 76, 40)
    assert len(rows) == 16 * 16
    assert np.nansum(spread) == 16 * 16


def test_what_was_cropped_away_has_no_heat(explanation):
    for smooth in (True, False):
        seen = ~np.isnan(heat(explanation, explanation.scores(), smooth=smooth))
        assert seen[8:72, 28:92].all()
        assert seen.sum() == 64 * 64


def test_smooth_heat_has_the_patchs_score_at_its_centre(explanation):
    scores = explanation.scores()
    spread = heat(explanation, scores)
    for one in explanation.positions[1:]:
        left, top, right, bottom = one.box
        row, column = int(top + bottom) // 2, int(left + right) // 2
        around = spread[row - 1 : row + 1, column - 1 : column + 1]
        assert around.mean() == pytest.approx(scores[one.index], rel=0.15)
    assert np.nanmax(spread) <= scores[1:].max() + 1e-12


def test_a_copy_of_another_size_is_heated_in_the_same_places(explanation):
    small = heat(explanation, one_hot(explanation, 7), smooth=False, size=(60, 40))
    rows, columns = np.nonzero(small == 1)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (30, 12, 38, 20)


def test_the_overlay_has_the_pictures_size_and_a_bar_beside_it(explanation):
    assert explanation.overlay(bar=False).size == (120, 80)
    barred = explanation.overlay(enlarge=False)
    assert barred.height == 80
    assert barred.width > 120
    np.testing.assert_array_equal(np.asarray(barred)[:, :120], np.asarray(explanation.overlay(bar=False)))


def test_a_small_overlay_is_enlarged_a_whole_number_of_times(explanation):
    shown = explanation.overlay()
    assert shown.height == 3 * 80
    large = attnx.explain(zoo.model("vit"), CROP, photo().resize((480, 320)))
    assert large.overlay().height == 320


def test_the_best_patch_has_the_brightest_colour():
    black = attnx.explain(zoo.model("vit"), CROP, Image.new("RGB", (120, 80)))
    drawn = np.asarray(black.overlay(bar=False, smooth=False)).astype(float).sum(-1)
    best = max(black.positions[1:], key=lambda one: black.scores()[one.index])
    left, top, right, bottom = map(int, best.box)
    assert (drawn[top:bottom, left:right] == drawn.max()).all()
    assert (drawn[:, :28] == 0).all()


def test_every_method_layer_and_head_can_be_drawn():
    each = attnx.explain(zoo.model("vit"), CROP, photo(), head="all")
    drawn = [each.overlay("raw", layer=layer, head=head) for layer in (1, 3) for head in (0, 3)]
    assert len({picture.tobytes() for picture in drawn}) == 4


def test_a_fixed_scale_makes_pictures_comparable(explanation):
    dim = np.asarray(explanation.overlay(highest=10, bar=False)).astype(int)
    expected = 0.65 * colour_map("viridis")[0] + 0.35 * np.asarray(photo().convert("L"))[40, 60]
    assert np.abs(dim[40, 60] - expected).max() <= 1


@pytest.mark.parametrize("colours", COLOURS)
def test_colours_differ_in_lightness_alone_as_well(colours):
    red, green, blue = colour_map(colours).T / 255
    lightness = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert (np.diff(lightness) > -1e-3).all()
    assert lightness[-1] - lightness[0] > 0.6


def test_an_explained_patch_is_framed():
    plain, framed = (attnx.explain(zoo.model("vit"), CROP, photo(), position=place) for place in (0, 6))
    left, top, *_ = map(int, framed.positions[6].box)
    assert framed.overlay(bar=False).getpixel((left, top)) == (255, 255, 255)
    assert plain.overlay(bar=False).getpixel((left, top)) != (255, 255, 255)


def test_a_loaded_explanation_takes_the_picture_again(explanation, tmp_path):
    explanation.save(tmp_path / "e.safetensors")
    loaded = attnx.Explanation.load(tmp_path / "e.safetensors")
    assert (loaded.image, loaded.image_size, loaded.positions) == (None, (120, 80), explanation.positions)
    assert (tmp_path / "e.safetensors").stat().st_size < 20_000
    with pytest.raises(InputError, match="pass it again, image="):
        loaded.overlay()
    with pytest.raises(InputError, match="it has 120 × 80 pixels, this one 80 × 120"):
        loaded.overlay(image=photo(80, 120))
    assert loaded.overlay(image=photo()).tobytes() == explanation.overlay().tobytes()
    for again, first in (
        (loaded.plot(image=photo()), explanation.plot()),
        (loaded.plot_layers(image=photo()), explanation.plot_layers()),
        (loaded.plot("flow", image=photo()).figure, explanation.plot("flow").figure),
    ):
        for one, other in zip(again.axes, first.axes, strict=True):
            np.testing.assert_array_equal(
                [im.get_array() for im in one.images], [im.get_array() for im in other.images]
            )


def test_a_text_has_no_overlay():
    text = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key")
    with pytest.raises(InputError, match="not of an image"):
        text.overlay()


def test_unknown_names_are_answered(explanation):
    with pytest.raises(ChoiceError, match="did you mean 'viridis'"):
        explanation.overlay(colours="virids")
    with pytest.raises(ChoiceError, match="method 'rol'"):
        explanation.overlay("rol")
    for highest in (0, -1, float("nan")):
        with pytest.raises(ChoiceError, match="above 0"):
            explanation.overlay(highest=highest)


def test_panels_show_the_picture_and_every_method_and_reference():
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=2, **zoo.WIDTH)
    model = hf.ViTForImageClassification(config).eval()
    e = attnx.explain(model, CROP, photo(), references=("gradient", "blankout"))
    assert "Spearman's rank correlation over 16 patches: " in e.verdict
    titles = [ax.get_title().split("\n")[0] for ax in image_panels(e).axes]
    assert titles[:6] == ["image", "gradient", "blankout", "rollout, layer 3", "raw, layer 3", "flow, layer 3"]
    shown = [np.asarray(ax.images[0].get_array()) for ax in image_panels(e, ["gradient"]).axes[:2]]
    np.testing.assert_array_equal(shown[1], np.asarray(overlay(e, "gradient", bar=False)))
    with pytest.raises(ChoiceError, match="gradient"):
        e.plot_layers("gradient")  # it has no layers


def test_the_strip_has_a_panel_for_each_layer(explanation):
    before = matplotlib.get_backend()
    titles = [ax.get_title() for ax in layer_strip(explanation, "raw").axes]
    assert titles[:3] == ["raw, layer 1", "raw, layer 2", "raw, layer 3"]
    assert matplotlib.get_backend() == before


def test_plot_of_an_image_is_its_panels_or_one_overlay(explanation):
    titles = [ax.get_title().split("\n")[0] for ax in explanation.plot().axes]
    assert titles[:4] == ["image", "rollout, layer 3", "raw, layer 3", "flow, layer 3"]
    axes = Figure().subplots()
    assert explanation.plot("flow", 2, ax=axes) is axes
    expected = np.asarray(explanation.overlay("flow", 2, bar=False))
    np.testing.assert_array_equal(np.asarray(axes.images[0].get_array()), expected)
    assert "layer 2" in axes.get_title(loc="left")
    assert [ax.get_title() for ax in explanation.plot_layers("raw").axes][2] == "raw, layer 3"


def test_rich_prints_the_best_patches(explanation):
    assert explanation.__rich__().plain == str(explanation)


def two_sided(explanation):
    """Patch 6 supports the target, patch 7 opposes it as much, all others have nothing."""
    scores = np.zeros((3, len(explanation.positions)))
    scores[:, 6], scores[:, 7] = 0.5, -0.5
    return with_scores(explanation, relevance={"rollout": scores, "raw": abs(scores)}, signed=frozenset({"rollout"}))


def centre(picture, position):
    left, top, right, bottom = position.box
    return np.array(picture.getpixel((int(left + right) // 2, int(top + bottom) // 2)), dtype=int)


def test_what_opposes_the_target_has_another_colour_than_what_supports_it():
    black = two_sided(attnx.explain(zoo.model("vit"), CROP, Image.new("RGB", (120, 80)), position=0))
    drawn = black.overlay("rollout", bar=False, smooth=False)
    supports, opposes, nothing = (centre(drawn, black.positions[place]) for place in (6, 7, 8))
    expected = 0.65 * np.array([STOPS_FOR[-1][1], STOPS_AGAINST[-1][1], STOPS_FOR[0][1]])
    np.testing.assert_allclose([supports, opposes, nothing], expected, atol=2)
    unsigned = black.overlay("raw", bar=False, smooth=False)
    np.testing.assert_array_equal(centre(unsigned, black.positions[6]), centre(unsigned, black.positions[7]))


def test_panels_of_signed_scores_have_two_colours_and_their_own_bar(explanation):
    signed = two_sided(explanation)
    figure = image_panels(signed, ["rollout", "raw"])
    titles = [ax.get_title().partition("\n")[2] for ax in figure.axes[1:3]]
    assert titles == ["from −0.5 to 0.5", "highest 0.5"]
    bars = [[label.get_text() for label in ax.get_yticklabels()] for ax in figure.axes[3:]]
    assert bars == [["0", "highest"], ["opposes", "0", "supports"]]
    shown = np.asarray(figure.axes[1].images[0].get_array())
    np.testing.assert_array_equal(shown, np.asarray(signed.overlay("rollout", bar=False)))
    assert [label.get_text() for label in layer_strip(signed, "rollout").axes[-1].get_yticklabels()] == [
        "−0.5",
        "0",
        "0.5",
    ]


def test_signed_scores_that_are_all_zero_have_the_colour_of_nothing():
    black = attnx.explain(zoo.model("vit"), CROP, Image.new("RGB", (120, 80)), position=0)
    nothing = with_scores(black, relevance={"rollout": 0 * black["rollout"]}, signed=frozenset({"rollout"}))
    drawn = nothing.overlay("rollout", bar=False)
    np.testing.assert_allclose(centre(drawn, nothing.positions[6]), 0.65 * np.array(STOPS_FOR[0][1]), atol=2)
