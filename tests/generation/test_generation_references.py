"""References for each written token: those of separate runs, with the runner-up, every layer, and several prompts."""

import copy

import numpy as np
import pytest
import torch

import attnx
from attnx.results import stripe
from attnx.results.warnings import likeness
from tests import zoo

PROMPT = "the key to the cabinets"
MODEL, TOKENIZER = zoo.causal_lm(), zoo.bytelevel_tokenizer()
FOUR = {"max_new_tokens": 4, "min_new_tokens": 4}
REFERENCES = ("lrp", "gradient", "blankout")


@pytest.fixture(scope="module")
def written():
    return attnx.explain_generation(
        MODEL, TOKENIZER, PROMPT, methods="rollout", references=REFERENCES, contrast=True, layer="all", **FOUR
    )


def beginnings(written):
    """The ids before each token, and the token."""
    ids = torch.tensor([TOKENIZER.convert_tokens_to_ids(list(written.tokens))])
    for step in range(len(written)):
        seen = written.prompt_length + step
        yield step, ids[:, :seen], int(ids[0, seen])


def test_rows_are_those_of_a_run_for_each_token(written):
    for step, ids, after in beginnings(written):
        one = attnx.explain(
            MODEL, TOKENIZER, {"input_ids": ids}, target=after, references=REFERENCES, methods="rollout"
        )
        for name in REFERENCES:
            row, expected = written[name][step], one[name]
            slack = 1e-5 * np.abs(expected).max() + (1e-6 if name == "blankout" else 0)  # a difference of two scores
            np.testing.assert_allclose(row[: len(expected)], expected, atol=slack, rtol=1e-5)
            assert not row[len(expected) :].any()
        np.testing.assert_allclose(written.step(step)["rollout"], one["rollout"], atol=1e-5)
        assert written.step(step).layers == one.layers == (1, 2, 3)


def test_a_contrast_is_with_the_best_of_all_others(written):
    for step, ids, after in beginnings(written):
        logits = MODEL(ids).logits[0, -1].detach().clone()
        logits[after] = -torch.inf
        rival = int(logits.argmax())
        assert written.contrasts[step].against == TOKENIZER.decode([rival])
        one = attnx.explain(MODEL, TOKENIZER, {"input_ids": ids}, target=(after, rival), references="lrp")
        expected = one["lrp"]
        np.testing.assert_allclose(written.against["lrp"][step][: len(expected)], expected, atol=1e-5, rtol=1e-4)
    assert set(written.against) == set(REFERENCES)


def test_each_step_has_its_own_account_and_all_is_kept_in_files(written, tmp_path):
    written.save(tmp_path / "g.safetensors")
    same = attnx.GenerationExplanation.load(tmp_path / "g.safetensors")
    assert same == written
    told = [same.step(number).attributions["lrp"].diagnostics for number in range(len(same))]
    assert len({one["account"] for one in told}) == len(told)
    for number, one in enumerate(told):
        parts = same["lrp"][number].sum() + one["sink"] + one["biases"]
        assert parts == pytest.approx(one["value"], rel=1e-4)


def test_value_path_comes_first_where_nobody_chose_and_nothing_where_methods_were_named():
    nobody = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, **FOUR)
    assert nobody.methods == ("lrp", "rollout", "raw", "flow")
    assert nobody.step(0).methods[0] == "lrp"
    assert "lrp" in nobody.verdict
    assert attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="rollout", **FOUR).methods == ("rollout",)
    both = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="rollout", references="lrp", **FOUR)
    assert both.methods[0] == "rollout"


def test_several_prompts_are_several_results():
    several = attnx.explain_generation(MODEL, TOKENIZER, [PROMPT, "a film"], methods="raw", **FOUR)
    assert [one.text[:6] for one in several] == ["the ke", "a film"]
    alone = attnx.explain_generation(MODEL, TOKENIZER, "a film", methods="raw", **FOUR)
    assert several[1] == alone


def test_methods_that_run_the_model_are_named_like_all_others():
    alone = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="lrp", **FOUR)
    several = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods=["rollout", "lrp"], **FOUR)
    assert (alone.methods, several.methods) == (("lrp",), ("rollout", "lrp"))
    np.testing.assert_allclose(alone["lrp"], several["lrp"])


def test_messages_of_a_chat_are_told_apart():
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    chat = [{"role": "system", "content": "user"}, {"role": "user", "content": "the key"}]
    for prepend_token in (None, "a"):
        one = attnx.explain_generation(MODEL, tokenizer, chat, methods="raw", prepend_token=prepend_token, **FOUR)
        said = [
            (role, "".join(one.text[p.start : p.end] for p in one.positions[start:end]))
            for role, start, end in one.parts
        ]
        assert [(role, text.strip()) for role, text in said] == [("system", "user"), ("user", "the key")]


def test_progress_shows_what_is_written_and_changes_nothing(capsys, monkeypatch):
    plain = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="raw", references="lrp", **FOUR)
    shown = attnx.explain_generation(MODEL, TOKENIZER, PROMPT, methods="raw", references="lrp", progress=True, **FOUR)
    assert shown == plain


def test_rows_that_are_all_alike_are_a_stripe_and_others_are_none():
    alike = np.tile([0.7, 0.1, 0.1, 0.1], (5, 1))
    assert likeness(alike) == pytest.approx(1)
    (said,) = stripe("rollout", alike, target_specific=False)
    assert "all 5 tokens are nearly the same" in said.sentence
    assert "references=" not in said.sentence  # a page shows it, too
    assert stripe("rollout", np.eye(4), target_specific=False) == ()
    assert stripe("rollout", alike[:2], target_specific=False) == ()
    assert stripe("rollout", alike * 0, target_specific=False) == ()
