"""The section of written text, in a real browser: hover and click show the numbers of the result."""

from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.adapters import Position, group_words
from attnx.demo_models.dates import load_demo
from attnx.targets import Prediction
from tests import zoo
from tests.made import generation as made_generation
from tests.made import with_scores
from tests.views.page.test_browser import EVIL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written():
    return attnx.explain_generation(
        zoo.causal_lm(),
        zoo.bytelevel_tokenizer(),
        "the key to the cabinets",
        continuation=" is on it",
        methods=("rollout", "raw"),
        references="lrp",
        contrast=True,
        layer="all",
    )


def by_hand(*tokens, prompt):
    """A generation of these tokens, of which so many are the prompt's."""
    positions, words = group_words([Position(index, token) for index, token in enumerate(tokens)], None)
    steps = len(tokens) - prompt
    answers = tuple(Prediction("token", one, 0, 0.5, (one, EVIL[0]), (1.0, 0.0)) for one in tokens[prompt:])
    scores = np.random.default_rng(0).random((steps, len(tokens) - 1))
    return made_generation(positions, words, prompt, 2, {"rollout": scores}, answers, notes=(EVIL[1],))


def sources(tab):
    return [float(one.get_attribute("data-score")) for one in tab.locator("#generation-text .token[data-score]").all()]


def token(tab, written, step):
    return tab.locator("#generation-text .token").nth(written.prompt_length + step)


def expected(row, written, step):
    return pytest.approx(row[: written.prompt_length + step].tolist(), rel=1e-5, abs=1e-7)


def by(tab, name):
    tab.get_by_role("radiogroup", name="Generated text by").get_by_role("radio", name=name).click()
    tab.locator("#generation-readout", has_text=f"by {name}").wait_for()


def test_hover_previews_and_a_click_keeps_what_a_token_drew_from(opened, written):
    tab = opened(written)
    assert sources(tab) == expected(written["rollout"][0], written, 0)
    token(tab, written, 2).hover()
    assert sources(tab) == expected(written["rollout"][2], written, 2)
    tab.mouse.move(0, 0)
    assert sources(tab) == expected(written["rollout"][0], written, 0)
    token(tab, written, 1).click()
    tab.mouse.move(0, 0)
    assert sources(tab) == expected(written["rollout"][1], written, 1)
    assert token(tab, written, 1).get_attribute("aria-pressed") == "true"


def test_methods_references_and_layers_can_be_chosen(opened, written):
    tab = opened(written)
    by(tab, "lrp")
    assert sources(tab) == expected(written["lrp"][0], written, 0)
    assert "supports" in tab.locator("#generation-legend").inner_text()
    by(tab, "rollout")
    tab.locator("#generation-layer").press("ArrowLeft")
    tab.locator("#generation-readout", has_text="at layer 2").wait_for()
    assert sources(tab) == expected(written.attributions["rollout"].scores[1, 0], written, 0)


def test_the_prompts_tokens_tell_their_score(opened, written):
    tab = opened(written)
    tab.locator("#generation-text .token").nth(1).hover()
    assert f"{written['rollout'][0, 1]:.6f}" in tab.locator("#generation-readout").inner_text()


def test_probabilities_and_runners_up_are_told_and_one_can_be_set_against_the_token(opened, written):
    tab = opened(written)
    cells = tab.locator("#alternatives tr").first.locator("td").all_inner_texts()
    assert cells[0].strip() == written.generated[0].strip() or "␣" in cells[0]
    assert cells[1] == f"{100 * written.probabilities[0]:.2f} %"
    assert tab.locator("#alternatives button").count() == 0  # rollout does not know the answer
    by(tab, "lrp")
    token(tab, written, 1).click()
    tab.locator("#alternatives button").click()
    tab.locator("#generation-readout", has_text="against").wait_for()
    assert sources(tab) == expected(written.against["lrp"][1], written, 1)
    tab.locator("#alternatives button").click()
    assert sources(tab) == expected(written["lrp"][1], written, 1)


def test_alternatives_have_the_probabilities_of_the_model(written):
    import torch

    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    ids = tokenizer("the key to the cabinets is on it", return_tensors="pt")["input_ids"]
    for step in range(len(written)):
        shares = model(ids).logits[0, written.prompt_length - 1 + step].softmax(-1)
        label, share = written.alternatives(step)[0]
        if share is not None:
            assert share == pytest.approx(float(torch.topk(shares, 2).values[0]), rel=1e-3) or share <= float(
                shares.max()
            )
            assert label in written.predictions[step].labels


def test_a_cell_of_the_grid_is_the_number_of_the_result(opened, written):
    tab = opened(written)
    tab.locator("#generation-grid").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    told = tab.locator("#grid-readout").inner_text()
    assert f"{written['rollout'][1, 2]:.6f}" in told
    tab.keyboard.press("Enter")
    assert sources(tab) == expected(written["rollout"][1], written, 1)


def test_it_can_be_used_without_a_mouse(opened, written):
    tab = opened(written)
    token(tab, written, 0).focus()
    tab.keyboard.press("ArrowRight")
    assert sources(tab) == expected(written["rollout"][1], written, 1)
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("generated token 3")


def test_markup_in_tokens_stays_text(opened):
    tab = opened(by_hand("a", *EVIL, *EVIL, prompt=4))
    shown = tab.locator("#generation-text .token").all_inner_texts()
    assert shown == ["a", *EVIL, *EVIL]
    for place in range(len(shown)):
        tab.locator("#generation-text .token").nth(place).hover()
    assert tab.locator("#generation img, #generation script").count() == 0
    assert EVIL[1] in tab.locator("#generation-notes").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_scrolls_downwards_only(opened, written, scheme):
    tab = opened(written, viewport={"width": 360, "height": 700}, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(paper[4:].split(",")[0]) < 60) == (scheme == "dark")


def test_parts_of_a_chat_are_marked(opened, written):
    told = {**written.provenance, "input": {"parts": [["system", 0, 2], ["user", 4, 6]]}}
    tab = opened(replace(written, provenance=told))
    assert tab.locator("#generation-text .role").all_inner_texts() == [
        "system",
        "template",
        "user",
        "template",
        "generated",
    ]


def test_a_stripe_is_told(opened, written):
    rows = np.zeros_like(written.attributions["rollout"].scores)
    rows[..., :4] = [0.7, 0.1, 0.1, 0.1]
    tab = opened(with_scores(written, relevance={"rollout": rows}))
    assert "a stripe: the rows of all" in tab.locator("#generation-lead").inner_text()


def test_several_texts_share_a_page_and_can_be_picked(opened, written):
    other = by_hand("x", "y", "z", prompt=2)
    tab = opened([written, other])
    tab.get_by_label("Text", exact=True).select_option("1")
    assert tab.locator("#generation-text .token").all_inner_texts() == ["x", "y", "z"]
    assert sources(tab) == expected(other["rollout"][0], other, 0)


def test_without_scripts_and_in_a_notebook_there_is_a_table(watched, written):
    silent = watched(java_script_enabled=False)
    silent.set_content(written.to_html())
    assert silent.locator("#plain td", has_text="attributed most to").count() == 1
    tab = watched()
    tab.set_content(f"<!doctype html>{written._repr_html_()}")
    tab.frame_locator("iframe").locator("#generation-text .token").first.wait_for()


def test_a_bar_says_how_much_is_from_the_prompt(opened, written):
    tab = opened(written)
    for step in (0, 2):
        token(tab, written, step).click()
        shown = float(tab.locator("#generation-shares .track").get_attribute("data-share"))
        assert shown == pytest.approx(written.from_front("rollout")[step], abs=1e-5)
    assert "from the prompt" in tab.locator("#generation-shares").inner_text()


def test_of_two_streams_the_bar_is_of_the_source_and_says_where_the_residual_alone_sets_it(opened):
    model, tokenizer = load_demo()
    dated = attnx.explain_generation(model, tokenizer, "the third of march 1998", methods="rollout", references="lrp")
    tab = opened(dated)
    by(tab, "lrp")
    shown = float(tab.locator("#generation-shares .track").get_attribute("data-share"))
    assert shown == pytest.approx(dated.from_front("lrp")[0], abs=1e-5)
    assert "from the source" in tab.locator("#generation-shares").inner_text()
    assert "residual" not in tab.locator("#generation-shares").inner_text()
    by(tab, "rollout")
    assert "set by the residual alone" in tab.locator("#generation-shares").inner_text()
