"""The page as a file: what is in it, and what cannot be."""

import base64
import hashlib
import json
import os
import re

import numpy as np
import pytest

import attnx
from attnx.adapters import Position, group_words
from attnx.errors import AttnxError, InputError
from attnx.targets import Prediction
from attnx.views import SECTIONS
from attnx.views.page.content import content
from attnx.views.page.page import scripts
from tests import zoo
from tests.children import python
from tests.made import explanation as made_explanation
from tests.made import with_scores
from tests.results import examples
from tests.views.page.conftest import faithful, made

EVIL = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--", "]]>", "\"'&amp;", "{{ 7*7 }}")


def data_in(page):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_words_stand_where_their_offsets_say_not_where_their_letters_are_found_first():
    text = "[MASK] is a MASK"
    named = [("[MASK]", 0, 6), ("is", 7, 9), ("a", 10, 11), ("MASK", 12, 16)]
    for skipped in ((0,), (0, 1, 2)):
        given = [Position(i, name, i in skipped, start, end) for i, (name, start, end) in enumerate(named)]
        positions, words = group_words(given, [text])
        one = made_explanation(positions, words, 0, (1,), {"rollout": np.full((1, 4), 0.25)}, text=text)
        (result,) = data_in(one.to_html())["results"]
        assert "".join(word["gap"] + word["text"] for word in result["words"]) == text


def test_the_numbers_in_the_page_are_those_of_the_explanation(explanation):
    (result,) = data_in(explanation.to_html())["results"]
    for name in ("rollout", "raw", "flow"):
        np.testing.assert_allclose(result["relevance"][name], explanation[name], rtol=0, atol=1e-9)
    assert "".join(word["gap"] + word["text"] for word in result["words"]) == explanation.text


def test_with_a_path_it_is_written_and_not_returned(explanation, tmp_path):
    assert explanation.to_html(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == explanation.to_html()
    with pytest.raises(AttnxError, match="cannot write"):
        explanation.to_html(tmp_path / "no" / "report.html")


@pytest.mark.skipif(os.name != "posix", reason="files have no limit elsewhere")
@pytest.mark.parametrize("write", [attnx.Explanation.to_html, attnx.Explanation.save])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(explanation, tmp_path, write):
    import resource

    path = tmp_path / ("x.html" if write is attnx.Explanation.to_html else "x.safetensors")
    path.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(AttnxError, match="cannot write"):
            write(explanation, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(path.name, "before")]
    write(explanation, path)
    assert path.stat().st_size > 1000


def test_tokens_cannot_leave_their_place():
    page = made(*EVIL).to_html()
    shown = tuple(name for name in SECTIONS if f'id="{name}"' in page)
    assert page.count("<script") == page.count("</script>") == len(scripts(shown)) + 1
    assert "<img" not in page
    assert page.count("<!--") == 0
    tokens = [one["token"] for one in data_in(page)["results"][0]["positions"]]
    assert tokens == ["[CLS]", *EVIL]


def test_a_title_is_text():
    assert "<title>&lt;b&gt; · attnx</title>" in attnx.to_html([made("a")], title="<b>")


def test_half_a_character_does_not_stop_a_page(tmp_path):
    made("half \udcff").to_html(tmp_path / "report.html")
    assert "half �" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_no_text_turns_the_page_round():
    turned = "\u202e\u2066\x1b"
    one = with_scores(
        made(f"a{turned}"),
        text=turned,
        notes=(turned,),
        provenance={f"model{turned}": turned},
        relevance={f"own{turned}": np.ones((2, 2))},
        references={f"gradient{turned}": np.ones(2)},
        prediction=Prediction("class", f"label{turned}", 0, 0.5, (turned,), (0.0,)),
    )
    for page in (attnx.to_html([one, one], title=turned), one._repr_html_()):
        assert not set(turned) & set(page)
        assert not re.search(r"\\u(202e|2066|001b)", page)


def test_white_space_by_itself_is_shown_as_it_stands_in_the_text():
    spaced = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "it \n\n it", methods="raw")
    (result,) = content([spaced])
    labels = [one["label"] for one in result["positions"]]
    assert "\n" in "".join(labels)
    assert not {"Ġ", "Ċ"} & set(labels)


def test_nothing_but_the_packages_scripts_may_run():
    page = made("a").to_html()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy
    blocks = re.findall(r"<script>(.*?)</script>", page, re.DOTALL) + re.findall(
        r"<style>(.*?)</style>", page, re.DOTALL
    )
    for block in blocks:
        assert base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() in policy
    assert not re.search(r"\son\w+=|https?://|style=", page)


@pytest.mark.parametrize("way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("])
def test_scripts_insert_text_and_never_markup(way):
    assert not any(way in script for script in scripts(tuple(SECTIONS)))


@pytest.mark.parametrize("wrong", ["text", [], [1], None])
def test_what_is_no_result_is_refused(wrong):
    with pytest.raises(InputError, match="a page shows explanations, a comparison, a head atlas"):
        attnx.to_html(wrong)


def test_a_method_is_held_against_the_size_of_a_reference():
    one = with_scores(made("a", "b", "c", scores=[0.1, 0.2, 0.7]), references={"gradient": np.array([9, 1, -2, -3.0])})
    page = data_in(one.to_html())
    assert page["agreement"]["results"] == [{"gradient": {"rollout": [1.0, 1.0], "flow": [1.0, 1.0]}}]
    assert page["results"][0]["references"]["gradient"] == [9, 1, -2, -3]


def test_undefined_agreement_is_null():
    one = with_scores(made("a", "b", scores=[0.5, 0.5]), references={"gradient": np.arange(3.0)})
    page = data_in(one.to_html())
    assert page["agreement"]["results"][0]["gradient"]["rollout"] == [None, None]
    assert page["trust"]["results"][0]["between"][0]["layers"] == [None, None]


def test_several_results_with_references_have_the_summary_of_their_comparison():
    several = [
        with_scores(made(*"abcde"), references={"gradient": np.random.default_rng(seed).random(6)}) for seed in range(4)
    ]
    found = data_in(attnx.to_html(several))["summary"]
    comparison = attnx.Comparison.of(several)
    assert found == data_in(attnx.to_html(comparison))["summary"]
    cell = comparison.cell("flow", "gradient")
    assert found["references"]["gradient"]["means"]["flow"][-1] == {
        "mean": round(cell.mean, 4), "low": round(cell.low, 4), "high": round(cell.high, 4), "mark": "", "undefined": 0,
    }  # fmt: skip
    assert "summary" not in data_in(attnx.to_html([made("a"), made("b")]))


def test_faithfulness_is_in_the_page_with_the_marks_of_significance():
    result = faithful()
    page = attnx.to_html(result)
    found = data_in(page)["faithfulness"]
    assert [one["mark"] for one in found["cells"]["rollout"]] == ["+", "−", "−", "+"]
    assert found["cells"]["random"][0]["mean"] == round(result.cell("random", "comprehensiveness").mean, 4)
    assert found["curves"]["deletion"]["rollout"][-1] == 0.6
    assert f"<h2>{result.heading()}</h2>" in page


def test_known_answers_are_in_the_page_with_chance_on_top_and_a_dash_for_what_refused():
    result = examples.truth()
    found = data_in(attnx.to_html(result))["truth"]
    assert list(found["cells"])[:2] == ["chance", "(first)"]
    assert found["cells"]["raw"][0]["mark"] == "+"
    assert found["cells"]["gradient"][2] == {"mean": None, "why": "it has none"}
    assert found["columns"] == [
        "recall: reciprocal rank", "recall: first", "texts: comprehensiveness", "texts: sufficiency ↓",
    ]  # fmt: skip


def test_what_was_measured_over_many_texts_shows_itself_in_a_notebook():
    several = [with_scores(made(*"abcde"), references={"gradient": np.arange(6.0)}) for _ in range(2)]
    for shown in (faithful(), attnx.Comparison.of(several)):
        cell = shown._repr_html_()
        assert '<iframe sandbox="allow-scripts"' in cell
        assert shown.to_text().splitlines()[0] in cell


def test_a_page_of_512_tokens_is_reduced_below_three_megabytes_and_says_so():
    long = made(*(f"token{index}" for index in range(511)), layers=6, maps=True)
    page = with_scores(
        long,
        relevance={"rollout": long["rollout"], "flow": long["flow"], "raw": long["flow"]},
        maps=dict.fromkeys(("rollout", "flow", "raw"), long.attributions["flow"].matrices),
    )
    html = page.to_html()
    assert len(html.encode()) < 3_000_000
    (result,) = data_in(html)["results"]
    edges = result["maps"]["edges"]
    assert any(f"the {edges} strongest of 512 weights" in note for note in result["notes"])


def test_the_strongest_edges_are_kept():
    long = made(*("a" for _ in range(511)), layers=6, maps=True)
    (result,) = content([long])
    edges, kept = result["maps"]["edges"], result["maps"]["relevance"]["flow"]
    values = np.frombuffer(base64.b64decode(kept["values"]), "<f4").reshape(6, 512, edges)
    places = np.frombuffer(base64.b64decode(kept["indices"]), "<u2").reshape(6, 512, edges)
    np.testing.assert_array_equal(np.sort(values, -1), np.sort(long.attributions["flow"].matrices, -1)[..., -edges:])
    np.testing.assert_array_equal(
        np.take_along_axis(long.attributions["flow"].matrices, places.astype(int), -1), values
    )


def test_many_layers_are_thinned_and_the_last_is_kept():
    deep = made(*("a" for _ in range(1999)), layers=48)
    (result,) = content([deep])
    assert result["layers"][-1] == 48
    assert len(result["layers"]) < 48
    assert any(f"{len(result['layers'])} of 48 layers" in note for note in result["notes"])
    assert len(deep.to_html().encode()) < 3_000_000


def test_several_results_share_the_room():
    several = [made(*("a" for _ in range(99)), layers=6, maps=True) for _ in range(20)]
    page = attnx.to_html(several)
    assert len(page.encode()) < 5_000_000
    assert any("strongest of 100 weights" in note for note in data_in(page)["results"][0]["notes"])


@pytest.mark.slow
def test_nothing_heavy_is_loaded_before_a_page_is_asked_for(children):
    code = "import attnx, sys; print({'jinja2', 'markupsafe'} & set(sys.modules))"
    assert children.run(python(code)).stdout == "set()\n"


def test_a_page_gives_no_advice_in_python_or_for_the_command_line():
    decoder = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "key to", target=" cabinets", methods="raw")
    assert "methods=" in decoder.verdict
    written = attnx.explain_generation(
        zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to", continuation=" the cabinets", methods="rollout"
    )
    assert "methods=" in written.verdict
    for page in (attnx.to_html(decoder), attnx.to_html(written)):
        body = page.partition("<body>")[2].partition('id="data"')[0]
        told = json.dumps(data_in(page), ensure_ascii=False) + body
        keyword = r"\b(references|methods|position|prepend_token|contrast|continuation|all_queries)="
        assert not re.search(rf"{keyword}|--(reference|method|position|prepend-token|contrast)\b", told)
