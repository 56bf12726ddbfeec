"""The page in a real browser, from disk: what it shows, and that it asks nobody for anything."""

import re
from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.pipeline import load
from attnx.results import layered, unlayered
from tests import zoo
from tests.made import with_scores
from tests.results import examples
from tests.views.page.conftest import faithful, made

pytestmark = pytest.mark.slow


def scores(tab):
    return [float(one.get_attribute("data-score")) for one in tab.locator("#reading .word").all()]


def word(tab, text):
    return tab.locator("#reading .word", has_text=re.compile(f"^{re.escape(text)}$"))


def expected(explanation, method, layer):
    return pytest.approx([one.score for one in explanation.by_word(method, layer)], abs=1e-8)


def choose(tab, method, explanation):
    """By its name, among methods with layers or those without."""
    group, suffix = ("Method", " at") if method in layered(explanation) else ("Reference", "")
    tab.get_by_role("radiogroup", name=group).first.get_by_role("radio", name=method).click()
    tab.locator("#readout", has_text=f"by {method}{suffix}").wait_for()


def test_the_layer_slider_and_the_methods_change_what_is_shown(opened, explanation):
    tab = opened(explanation)
    tab.get_by_role("radiogroup", name="Method").get_by_role("radio", name="rollout").click()
    tab.locator("#readout", has_text="by rollout").wait_for()
    assert scores(tab) == expected(explanation, "rollout", 3)
    tab.locator("#layer").press("ArrowLeft")
    tab.get_by_role("radio", name="flow").click()
    tab.locator("#readout", has_text="flow at layer 2").wait_for()
    assert scores(tab) == expected(explanation, "flow", 2)


def test_the_model_says_its_prediction_and_not_the_target(opened, explanation):
    other = next(label for label in explanation.prediction.labels if label != explanation.prediction.label)
    chosen = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), explanation.text, methods="raw", target=other)
    tab = opened(chosen)
    said, target = (f"{one.label} {100 * one.probability:.1f} %" for one in (explanation.prediction, chosen.prediction))
    assert tab.locator("#prediction-label").inner_text() == said
    assert tab.locator("#target").inner_text() == f"Explained target: {target}"
    assert f"Explained target: {other}" in chosen.to_html().partition('<main id="page"')[0]


def test_tokens_show_every_position(opened, explanation):
    tab = opened(explanation)
    tab.get_by_role("radio", name="tokens").click()
    tab.locator("#reading .special").first.wait_for()
    assert scores(tab) == pytest.approx(explanation.scores().tolist(), abs=1e-8)


def test_hover_and_focus_tell_the_exact_score_its_rank_and_its_ties(opened):
    tab = opened(made("key", "to", "the", scores=[0.2, 0.5, 0.2]))
    word(tab, "key").hover()
    assert tab.locator("#readout").inner_text() == (
        "key 0.200000 · rank 2 of 3 · ties with 1 other: their order means nothing"
    )
    word(tab, "to").focus()
    assert tab.locator("#readout").inner_text() == "to 0.500000 · rank 1 of 3 · no tie"


def test_a_click_on_a_word_explains_its_own_row(opened, explanation):
    tab = opened(explanation)
    word(tab, "key").click()
    tab.locator("#back").wait_for()
    tab.mouse.move(0, 0)
    place = explanation.words[1].positions[0]
    row = explanation.attributions["rollout"].matrices[-1, place]
    assert scores(tab) == pytest.approx([row[list(one.positions)].sum() for one in explanation.words], abs=1e-6)
    tab.get_by_role("button", name="Back to the explained position").click()
    tab.locator("#back").wait_for(state="hidden")
    assert scores(tab) == expected(explanation, "rollout", 3)


def test_it_can_be_used_without_a_mouse(opened, explanation):
    tab = opened(explanation)
    tab.get_by_role("radio", name="rollout").focus()
    tab.keyboard.press("ArrowRight")
    tab.locator("#readout", has_text="by raw").wait_for()
    word(tab, "key").focus()
    tab.keyboard.press("Enter")
    tab.locator(".word.explained").wait_for()
    tab.locator("#graph-canvas").focus()
    tab.keyboard.press("ArrowDown")
    assert "takes most from" in tab.locator("#graph-readout").inner_text()
    tab.locator("#layers-canvas").focus()
    tab.keyboard.press("ArrowDown")
    assert "layer 2" in tab.locator("#layers-readout").inner_text()


def test_the_threshold_thins_the_graph(opened):
    tab = opened(made(*"abcdefgh", maps=True))

    def lines():
        return int(re.search(r"(\d+) of", tab.locator("#graph-controls output").inner_text())[1])

    before = lines()
    shown = tab.locator("#graph-controls output")
    tab.locator("#threshold").press("End")
    shown.get_by_text(re.compile(r"\b1 of")).wait_for()  # painted with the next frame
    tab.locator("#threshold").press("Home")
    shown.get_by_text(re.compile(r"0\.000 · ")).wait_for()
    assert lines() > before


def test_a_hovered_cell_of_the_layers_is_the_number_of_that_layer(opened, explanation):
    tab = opened(explanation, viewport={"width": 1600, "height": 900})
    box = tab.locator("#layers-canvas").bounding_box()
    tab.mouse.move(box["x"] + 34, box["y"] + 34)
    first = explanation.by_word("rollout", 3)[0]
    assert tab.locator("#layers-readout").inner_text() == f"rollout, layer 3 · The {first.score:.6f}"


EVIL = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--", "javascript:alert(3)"]


def test_markup_in_tokens_stays_text(opened):
    evil = made(*EVIL, maps=True)
    tab = opened([replace(evil, text=EVIL[0], notes=(EVIL[1],), provenance={EVIL[0]: EVIL[1]}), evil])
    for view in ("words", "tokens"):
        tab.get_by_role("radio", name=view).click()
        for token in EVIL:
            word(tab, token).hover()
            assert token in tab.locator("#readout").inner_text()
    assert tab.locator("img").count() == 0
    assert EVIL[0] in tab.locator("#result option").first.inner_text()


def test_direction_marks_in_a_token_do_not_turn_the_page(opened):
    tab = opened(made("\u202ekey", "\n", "a\x00b", "👩\u200d👧", "\u200d"))
    shown = [one.inner_text() for one in tab.locator("#reading .word").all()]
    assert shown == ["�key", "⏎", "a�b", "👩\u200d👧", "�"]


def test_a_script_that_is_not_the_packages_does_not_run(browser, tmp_path):
    made("a").to_html(tmp_path / "report.html")
    tab = browser.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    add = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    tab.evaluate(add)
    assert tab.evaluate("window.ran") is None
    refused = tab.evaluate("fetch('data:,x').then(() => 'loaded', () => 'refused')")
    tab.close()
    assert refused == "refused"


def test_in_a_sandboxed_cell_it_works_and_without_scripts_it_shows_the_words(watched, explanation):
    tab = watched()
    cell = explanation._repr_html_()
    tab.set_content(f"<!doctype html>{cell}")
    frame = tab.frame_locator("iframe")
    frame.get_by_role("radio", name="flow").click()
    frame.locator("#readout", has_text="by flow").wait_for()
    assert tab.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    tab.locator("summary").click()
    assert tab.locator("details p").all_inner_texts() == [explanation._verdict(keywords=False), explanation.text]
    silent = watched(java_script_enabled=False)
    silent.set_content(f"<!doctype html>{cell}")
    words = silent.frame_locator("iframe").locator("#plain .word")
    assert words.all_inner_texts() == [one.text for one in explanation.words]
    strongest = max(explanation.by_word(), key=lambda one: one.score).text
    assert strongest in silent.frame_locator("iframe").locator(".h10").all_inner_texts()


def test_a_picker_goes_through_several_results(opened, explanation):
    other = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a dull film")
    tab = opened([explanation, other])
    tab.get_by_role("button", name="Next result").click()
    word(tab, "dull").wait_for()
    assert scores(tab) == pytest.approx([one.score for one in other.by_word("lrp")], abs=1e-7)
    tab.locator("#result").select_option("0")
    word(tab, "cabinets").wait_for()


def with_reference(seed, *tokens):
    return with_scores(made(*tokens), references={"gradient": np.random.default_rng(seed).normal(size=len(tokens) + 1)})


def test_a_reference_is_shown_like_a_method(opened):
    one = with_reference(0, *"abcdef")
    tab = opened(one)
    tab.get_by_role("radiogroup", name="Reference").first.get_by_role("radio", name="gradient").click()
    tab.locator("#readout", has_text="by gradient").wait_for()
    assert scores(tab) == pytest.approx(one["gradient"][1:].tolist())
    against = [score < 0 for score in one["gradient"][1:]]
    marks = [one.get_attribute("class").split() for one in tab.locator("#reading .word").all()]
    assert ["opposes" in classes for classes in marks] == against
    assert "by rollout" in tab.locator("#graph-lead").inner_text()


def test_a_comparison_is_a_table_with_bars_from_which_a_text_can_be_picked(opened):
    comparison = attnx.Comparison.of([with_reference(seed, *"abcdef") for seed in range(5)])
    tab = opened(comparison)

    def cells():
        return [float(one.replace("−", "-")) for one in tab.locator("#summary .number").all_inner_texts()]

    means = [comparison.cell(method, f"gradient L{layer}").mean for method in ("rollout", "flow") for layer in (1, 2)]
    assert cells() == pytest.approx(means, abs=0.005)
    tab.locator("#summary-text").select_option("3")
    of_text = [
        comparison.layer_values(method, "gradient")[3, layer] for method in ("rollout", "flow") for layer in (0, 1)
    ]
    assert cells() == pytest.approx(of_text, abs=0.005)


def test_faithfulness_is_a_table_and_curves_that_follow_the_colours(opened):
    result = faithful()
    tab = opened(result)
    first = tab.locator("#faithfulness .number").first.inner_text()
    assert first == f"{result.cell('rollout', 'comprehensiveness').mean:.2f} +"
    picture = "document.getElementById('faithfulness-canvas').toDataURL()"
    light = tab.evaluate(picture)
    tab.get_by_role("button", name="Switch to dark colours").click()
    assert tab.evaluate(picture) != light


def test_known_answers_are_a_table_with_a_number_for_each_cell_that_has_one(opened):
    result = examples.truth()
    tab = opened(result)
    first = tab.locator("#truth tbody tr").nth(2).locator(".number").first.inner_text()
    assert first == f"{result.cell(result.methods[0], 'recall').mean:.2f} +"
    assert tab.locator("#truth").get_by_text("it has none").is_visible()


def test_a_choice_that_draws_its_table_anew_keeps_the_keyboard(opened):
    several = [replace(with_reference(seed, *"abcdef"), text=str(seed)) for seed in range(5)]
    both = [with_scores(one, references={"gradient": one["gradient"], "blankout": np.arange(7.0)}) for one in several]
    tab = opened(both)
    for section in ("#summary", "#agreement"):
        tab.locator(section).get_by_role("radio", name="gradient").focus()
        for name in ("blankout", "gradient", "blankout"):
            tab.keyboard.press("ArrowRight")
            chosen = tab.locator(f'{section} [aria-checked="true"]', has_text=name)
            chosen.wait_for()
            assert chosen.evaluate("one => one === document.activeElement")


def test_a_head_of_the_grid_is_shown_in_the_whole_page(opened):
    each = made("key", "to", "the", heads=4)
    tab = opened(each)
    assert tab.locator(".head").count() == 8
    tab.get_by_role("button", name="layer 1, head 2").click()
    tab.locator("#readout", has_text="layer 1, head 2").wait_for()
    np.testing.assert_allclose(scores(tab), each["rollout"][0, 2, 1:], atol=1e-6)


def test_a_head_atlas_is_a_grid_for_each_reference(opened):
    raw = made(*"abcd", heads=4)["rollout"]
    one = with_scores(made(*"abcd", heads=4), references={"gradient": np.array([0, 3.0, 1, 2, 4])})
    atlas = attnx.HeadAtlas.of([with_scores(one, relevance={"raw": raw, "rollout": one["rollout"]}, first="raw")])
    tab = opened(atlas)
    tab.get_by_role("radio", name="gradient").click()
    for head in range(4):
        cell = tab.get_by_role("button", name=f"layer 2, head {head}")
        assert cell.get_attribute("title") == f"layer 2, head {head}: {atlas.grid('gradient')[1, head]:.4f}"


def test_it_follows_the_systems_colours_and_its_switch(opened, explanation):
    def background(tab):
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = opened(explanation, color_scheme="light"), opened(explanation, color_scheme="dark")
    assert background(light) != background(dark)
    light.get_by_role("button", name="Switch to dark colours").click()
    assert background(light) == background(dark)
    dark.emulate_media(media="print")
    assert not dark.locator("#theme").is_visible()


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_it_without_scrolling_sideways(opened, explanation, width):
    tab = opened(explanation, viewport={"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_of_512_tokens_opens_and_says_what_it_left_out(opened):
    long = made(*(f"token{index}" for index in range(511)), layers=6, maps=True)
    tab = opened(long)
    assert tab.locator("#reading .word").count() == 511
    assert "60 of 512 positions" in tab.locator("#graph-lead").inner_text()
    assert "strongest of 512 weights" in tab.locator("#details").inner_text()
    tab.locator("#threshold").press("Home")
    tab.get_by_role("radio", name="flow").click()
    tab.locator("#readout", has_text="by flow").wait_for()


def test_results_of_every_kind_share_a_page(opened):
    words, byte_level = zoo.wordpiece_tokenizer(), zoo.bytelevel_tokenizer()
    several = [
        attnx.explain(zoo.classifier(), words, ("the key", "to the cabinets")),
        attnx.explain(zoo.masked_lm(), words, "the [MASK] to it", layer=2, all_queries=True),
        attnx.explain(zoo.causal_lm(), byte_level, "the key\n to it 我"),
        attnx.explain(zoo.classifier(), words, "the key", head="all", all_queries=True),
        attnx.explain(zoo.model("vit"), None, zoo.inputs("vit")),
    ]
    tab = opened(several)
    for number, one in enumerate(several):
        tab.locator("#result").select_option(str(number))
        tab.locator("#readout", has_text="by ").wait_for()
        for method in layered(one):
            choose(tab, method, one)
            assert scores(tab) == expected(one, method, one.layers[-1])
        for method in unlayered(one):
            choose(tab, method, one)
            assert scores(tab) == expected(one, method, None)


def test_trust_reads_what_methods_say_of_themselves(opened):
    one = with_scores(
        made(*"abcdef"),
        diagnostics={"flow": {"saturation": (0.2, 0.9)}},
        local=frozenset({"rollout"}),
        digits={"flow": 1},
    )
    tab = opened(one)
    verdict = tab.locator("#trust .verdict")
    assert verdict.inner_text().startswith("Unchecked: the model has no head that answers")
    assert "Of one layer alone" in tab.locator("#trust .warning").all_inner_texts()[0]
    assert "to what it attends to in the layer below" in tab.locator("#graph-lead").inner_text()
    tab.get_by_role("radio", name="flow").click()
    verdict.get_by_text("90% of the inputs are saturated: they get all that can reach them").wait_for()
    tab.locator("#layer").press("ArrowLeft")
    tab.locator("#trust .meter", has_text="saturated inputs").get_by_text("20 %").wait_for()


def test_the_panel_says_what_the_verdict_says_of_each_row_and_advises_no_method(opened):
    base = made(*"abcdef", scores=[0.1, 0.1, 0.2, 0.1, 0.4, 0.1])
    one = with_scores(
        base, references={"blankout": np.array([0, 0, 0, 0.1, 0, 0.9, 0.05])}, target_specific=frozenset()
    )
    tab = opened(one)
    for method in layered(one):
        choose(tab, method, one)
        said = tab.locator("#trust .verdict").inner_text()
        assert said.startswith("Spearman's rank correlation over 6 tokens: blankout ")
        assert "Read " not in tab.locator("#trust").inner_text()
    tab.get_by_role("radiogroup", name="Reference").first.get_by_role("radio", name="blankout").click()
    tab.locator("#trust .verdict", has_text="no head that answers").wait_for()


def test_a_row_that_was_clicked_on_is_called_unchecked(opened, explanation):
    tab = opened(explanation)
    word(tab, "key").click()
    tab.locator("#trust .verdict", has_text="Unchecked: the checks are of the explained position").wait_for()


@pytest.mark.usefixtures("assets")
def test_the_panel_has_the_rank_correlation_of_the_chosen_method(opened, assets):
    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    text = "The acting is wonderful, but the story is a complete mess."
    e = attnx.explain(model, tokenizer, text, references=("lrp", "blankout"))
    tab = opened(e)
    for method in ("raw", "rollout"):
        numbers = ", ".join(f"{one.name} {one.ranks:.2f} (by size)" for one in e.row(method).agreements)
        tab.get_by_role("radiogroup", name="Method").get_by_role("radio", name=method).click()
        tab.locator("#trust .verdict", has_text=f"tokens: {numbers.replace('-', '−')}").wait_for()
        assert "Read " not in tab.locator("#trust").inner_text()


def test_a_telephone_needs_no_scrolling_sideways(opened):
    names = ("raw", "rollout", "flow", "gradient_rollout", "alti")
    base = made(*"abcdef")
    row = base["rollout"]
    one = with_scores(
        base,
        relevance={name: row.copy() for name in names},
        references={name: row[-1].copy() for name in ("integrated_gradients", "lrp", "blankout", "gradient")},
    )
    tab = opened(one, viewport={"width": 380, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") == 380


def test_the_agreement_table_opens_on_the_layer_that_is_shown(opened):
    deep = made(*"abcdef", layers=30)
    tab = opened(with_scores(deep, references={"gradient": np.arange(7.0)}))
    seen = """layer => {
      const box = document.querySelector("#agreement .scroll").getBoundingClientRect();
      const column = document.querySelectorAll("#agreement thead th")[layer].getBoundingClientRect();
      return column.left >= box.left && column.right <= box.right + 1;
    }"""
    assert tab.evaluate(seen, 30)
    tab.locator("#layer").press("Home")
    tab.locator("#readout", has_text="at layer 1").wait_for()
    assert tab.evaluate(seen, 1)


def test_content_alone_leaves_punctuation_without_colour(opened):
    one = made("key", ",", "to", scores=[0.2, 0.7, 0.1])
    tab = opened(one)
    tab.get_by_role("radio", name="content").click()
    tab.locator("#reading .plain").wait_for()
    assert tab.locator("#best .label").all_inner_texts() == ["key", "to"]
    assert tab.locator("#trust .meter", has_text="punctuation receives").get_by_text("70 %").count() == 1
    word(tab, "key").hover()
    assert "rank 1 of 2" in tab.locator("#readout").inner_text()


def test_signed_scores_have_a_legend_with_two_ends(opened):
    one = with_scores(with_reference(0, *"abcdef"), signed=frozenset({"gradient"}), first="gradient")
    tab = opened(one)
    assert tab.locator("#legend").inner_text().split("\n")[0] == "opposes"
    assert any(text.endswith(" opposes") for text in tab.locator("#best .number").all_inner_texts())
    tab.get_by_role("radiogroup", name="Method").get_by_role("radio", name="rollout").click()
    tab.locator("#readout", has_text="by rollout").wait_for()
    assert "opposes" not in tab.locator("#legend").inner_text()


def test_what_speaks_against_is_blue_in_the_layers(opened):
    tab = opened(made("for", "against", scores=[0.5, -0.5]), viewport={"width": 1600, "height": 900})
    tab.get_by_role("radio", name="flow").click()
    colours = tab.evaluate("""() => {
      const canvas = document.getElementById("layers-canvas");
      const scale = canvas.width / parseFloat(canvas.style.width);
      return [40, 124].map((x) => [...canvas.getContext("2d").getImageData(x * scale, 40 * scale, 1, 1).data]);
    }""")
    (red, _, blue, _), (other_red, _, other_blue, _) = colours
    assert red > blue
    assert other_blue > other_red


def test_a_table_of_the_paper_is_a_table_in_the_page(opened):
    table = examples.table()
    tab = opened([table, examples.probe()])
    assert tab.locator("#tables h2").count() == 3
    shown = tab.locator("#tables td", has_text="±").all_inner_texts()
    corrected, published = [".69±.27", ".55±.05", ".75±.20"], [".69±.27", ".50±.20", ".10±.08", ".50±.00", ".20±.08"]
    assert shown == corrected + published
    assert tab.locator("#tables .note").first.inner_text().startswith("Content positions blanked")


def test_the_account_of_a_method_stands_at_its_last_layer_alone(opened):
    told = {"methods": {"rollout": {"account": "1.5 = words 1.2, biases 0.3"}}}
    tab = opened(with_scores(made("key", "to", layers=2), diagnostics=told["methods"]))
    assert "1.5 = words 1.2" in tab.locator("#trust-body").inner_text()
    tab.locator("#layer").press("ArrowLeft")
    tab.locator("#readout", has_text="at layer 1").wait_for()
    assert "1.5 = words 1.2" not in tab.locator("#trust-body").inner_text()


def test_a_signed_row_without_anything_against_has_no_meter_of_special_tokens(opened):
    def meters(one):
        return opened(one).locator("#trust-body .meter .label").all_inner_texts()

    one = made("key", "to")
    assert "special tokens receive" in meters(one)
    assert "special tokens receive" not in meters(with_scores(one, signed=frozenset({"rollout"})))
