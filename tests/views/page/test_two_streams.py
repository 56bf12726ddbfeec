"""The page of one explained token of an encoder–decoder, in a real browser: shares of the streams, names of levels."""

import pytest

import attnx
from attnx.demo_models.dates import load_demo

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dated():
    source = "on friday the third of march 1998"
    methods, references = ("rollout", "raw"), "lrp"
    return attnx.explain(*load_demo(), source, target_text="1998 03", methods=methods, references=references)


def by(tab, group, name):
    tab.locator("#controls").get_by_role("radiogroup", name=group).get_by_role("radio", name=name).click()
    tab.locator("#readout", has_text=f"by {name}").wait_for()


def test_a_bar_says_how_much_is_from_the_source_and_where_the_residual_sets_it(opened, dated):
    tab = opened(dated)
    bar = tab.locator("#text-shares")
    for group, name in (("Reference", "lrp"), ("Method", "rollout"), ("Method", "raw")):
        by(tab, group, name)
        shown = float(bar.locator(".track").get_attribute("data-share"))
        assert shown == pytest.approx(dated.sequence_shares(name)["source"], abs=1e-5)
        assert ("residual" in bar.inner_text()) == (name == "rollout")
    assert "The model continues with" in tab.locator("#prediction").inner_text()


def test_levels_have_their_names_and_the_start_its_share_of_attention(opened, dated):
    tab = opened(dated)
    by(tab, "Method", "rollout")
    assert "at cross 2" in tab.locator("#readout").inner_text()
    assert "start of the output" not in tab.locator("#trust").inner_text()  # cross-attention reads the source alone
    tab.locator("#layer").fill("4")
    tab.locator("#readout", has_text="at self 2").wait_for()
    assert f"{dated.sink[4]:.0%}".replace("%", " %") in tab.locator("#trust").inner_text()
    assert "attention on the start of the output" in tab.locator("#trust").inner_text()


def test_a_model_of_one_stream_has_neither(opened):
    model, tokenizer = attnx.load_demo()
    tab = opened(attnx.explain(model, tokenizer, "the key to the cabinets", methods="rollout"))
    assert "layer 6" in tab.locator("#readout").inner_text()
    assert not tab.locator("#text-shares").is_visible()
