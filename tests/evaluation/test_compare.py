"""A comparison is Spearman of every method with every reference, text by text, and says what it left out."""

import copy
import json

import numpy as np
import pytest
import torch
import transformers
from scipy import stats

import attnx
from attnx.attribution import REFERENCES, Scored
from attnx.attribution.base import Reference
from attnx.errors import AttentionError, ChoiceError, FileFormatError, InputError
from attnx.results import layered, unlayered
from tests import verb_number_zoo as zoo
from tests import zoo as families

TEXTS = zoo.TEXTS[:3]


@pytest.fixture(scope="module")
def comparison():
    return attnx.compare(zoo.model(), zoo.tokenizer(), list(TEXTS), progress=False)


def test_each_number_is_scipys_on_the_content_of_one_text(comparison):
    for number, text in enumerate(TEXTS):
        e = attnx.explain(zoo.model(), zoo.tokenizer(), text, references=("gradient", "blankout"))
        content = [one.index for one in e.positions if not one.special]
        for reference, scores in ((name, e[name]) for name in unlayered(e)):
            for method in layered(e):
                for place, row in enumerate(e[method][:, content]):
                    expected = stats.spearmanr(np.round(row, 9), np.abs(scores[content])).statistic
                    found = comparison.layer_values(method, reference)[number, place]
                    assert found == pytest.approx(expected, abs=1e-4, nan_ok=True)


def test_a_cell_is_the_mean_over_texts_at_the_last_layer_unless_asked(comparison):
    values = comparison.layer_values("rollout", "blankout")
    assert comparison.cell("rollout", "blankout").mean == pytest.approx(np.nanmean(values[:, -1]))
    first = comparison.cell("rollout", "blankout L1")
    assert first.mean == pytest.approx(np.nanmean(values[:, 0]))
    assert first.low <= first.mean <= first.high
    assert (first.count, first.undefined) == (2, 1)  # one text is a single word


def test_one_text_is_a_comparison_too():
    alone = attnx.compare(zoo.model(), zoo.tokenizer(), TEXTS[0], methods="rollout", against="blankout")
    assert alone.texts == (TEXTS[0],)
    assert "mean of 1 text\n" in alone.to_text()
    assert "95 %" not in alone.to_text()


def test_a_signed_reference_counts_by_its_size():
    e = attnx.explain(zoo.model(), zoo.tokenizer(), TEXTS[0], references={"blankout": {"signed": True}})
    assert (e["blankout"] < 0).any()
    unsigned = attnx.compare(zoo.model(), zoo.tokenizer(), TEXTS[0], against="blankout")
    np.testing.assert_allclose(
        attnx.Comparison.of([e]).layer_values("flow", "blankout"), unsigned.layer_values("flow", "blankout"), atol=1e-6
    )


def test_a_constant_reference_is_counted_as_undefined_and_printed_as_such():
    def constant(model, processor, cases, *, progress=False):
        return [Scored(np.ones(len(case.prepared.positions))) for case in cases]

    REFERENCES.add("constant", Reference("constant", constant))
    try:
        found = attnx.compare(zoo.model(), zoo.tokenizer(), list(TEXTS), against="constant", progress=False)
    finally:
        REFERENCES.remove("constant")
    cell = found.cell("flow", "constant")
    assert (cell.mean, cell.count, cell.undefined) == (None, 0, 3)
    assert "NaN" not in found.to_json()
    assert "nan" not in found.to_text() + found.to_markdown() + found.to_csv()
    assert found.to_csv().splitlines()[1] == "0,constant,raw,1,"


def test_text_markdown_json_csv_and_frame_tell_the_same(comparison):
    again = attnx.Comparison.from_json(comparison.to_json())
    assert again.to_text() == comparison.to_text() == str(comparison)
    assert json.loads(comparison.to_json())["measure"] == "spearman"
    assert comparison.to_markdown().count("\n|---|") == 2
    frame = comparison.to_frame()
    assert len(frame) == 3 * 2 * 3 * 3 == len(comparison.to_csv().splitlines()) - 1
    chosen = frame[(frame.method == "flow") & (frame.reference == "gradient") & (frame.layer == 3)]
    assert chosen.spearman.mean() == pytest.approx(comparison.cell("flow", "gradient").mean)


def test_references_are_set_beside_each_other_for_scale(comparison):
    values = comparison.ceiling["gradient"]["blankout"]
    assert values.shape == (3,)
    np.testing.assert_allclose(values, comparison.ceiling["blankout"]["gradient"])
    assert "For scale: the spearman of blankout with gradient is" in comparison.to_text()


def test_a_plot_has_a_panel_a_reference_and_takes_axes(comparison):
    from matplotlib.figure import Figure

    assert [panel.get_title() for panel in comparison.plot()] == ["agreement with gradient", "agreement with blankout"]
    ax = Figure().subplots()
    assert comparison.plot(ax=ax, reference="blankout") is ax
    assert [line.get_label() for line in ax.lines[:3]] == ["raw", "rollout", "flow"]
    np.testing.assert_allclose(ax.lines[1].get_ydata()[-1], comparison.cell("rollout", "blankout").mean)


def test_of_deep_models_the_first_and_the_last_layer_are_shown():
    layers = tuple(range(1, 33))
    columns = tuple(f"gradient L{layer}" for layer in layers)
    deep = attnx.Comparison(
        values={"raw": np.zeros((1, 32))},
        columns=columns,
        measure="spearman",
        layers=layers,
        ceiling={"gradient": {}},
        texts=("keys",),
    )
    (shown,) = deep.groups().values()
    assert (shown[0], shown[-1], len(shown)) == (columns[0], columns[-1], 8)


def vit():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=32, patch_size=8, num_labels=3, **size)
    ).eval()
    images = (np.random.default_rng(0).random((2, 40, 50, 3)) * 255).astype("uint8")
    return model, transformers.ViTImageProcessor(size={"height": 32, "width": 32}), list(images)


def llama():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.LlamaConfig(vocab_size=300, num_key_value_heads=2, **size)
    return (
        transformers.LlamaForCausalLM(config).eval(),
        families.bytelevel_tokenizer(),
        ["the key to the", "a witty film is"],
    )


def distilbert():
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(vocab_size=43, dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=3)
    model = transformers.DistilBertForSequenceClassification(config).eval()
    return model, families.wordpiece_tokenizer(), ["a witty film", "the key to the cabinets"]


FIVE_KINDS = {
    "bert": lambda: (families.masked_lm(), families.wordpiece_tokenizer(), ["the author talked to sara about [MASK]"]),
    "distilbert": distilbert,
    "gpt2": lambda: (families.causal_lm(), families.bytelevel_tokenizer(), ["the key to the", "a film"]),
    "vit": vit,
    "llama": llama,
}


@pytest.mark.parametrize("kind", FIVE_KINDS)
def test_five_kinds_of_model_are_compared_without_special_code(kind):
    model, processor, inputs = FIVE_KINDS[kind]()
    found = attnx.compare(model, processor, inputs, progress=False)
    for reference in ("gradient", "blankout"):
        for method in ("raw", "rollout", "flow"):
            cell = found.cell(method, reference)
            assert cell.count + cell.undefined == len(inputs)
            assert cell.mean is None or -1 <= cell.mean <= 1
    assert found.cell("rollout", "gradient").count == len(inputs)


def test_what_cannot_be_compared_is_an_error(comparison):
    with pytest.raises(ChoiceError, match=r"reference 'gradients' is not known; .* did you mean 'gradient'"):
        attnx.compare(zoo.model(), zoo.tokenizer(), "keys", against="gradients")
    with pytest.raises(ChoiceError, match=r"option of blankout 'baselne' is not known; .* did you mean 'baseline'"):
        attnx.compare(zoo.model(), zoo.tokenizer(), "keys", against={"blankout": {"baselne": 3}})
    with pytest.raises(InputError, match="a comparison needs a method"):
        attnx.compare(zoo.model(), zoo.tokenizer(), "keys", against=())
    with pytest.raises(InputError, match="the list of texts is empty"):
        attnx.compare(zoo.model(), zoo.tokenizer(), [])
    with pytest.raises(InputError, match="nothing was measured to compare with"):
        attnx.Comparison.of([attnx.explain(zoo.model(), zoo.tokenizer(), "keys", references=())])
    with pytest.raises(ChoiceError, match="column 'blankout L9' is not known; there are: gradient L1"):
        comparison.cell("flow", "blankout L9")
    with pytest.raises(FileFormatError, match="not a comparison that"):
        attnx.Comparison.from_json('{"format": 99}')


def test_a_plug_in_that_gives_the_wrong_number_of_scores_is_named():
    def short(model, processor, cases, *, progress=False):
        return [Scored(np.ones(1)) for _ in cases]

    REFERENCES.add("short", Reference("short", short))
    try:
        with pytest.raises((AttentionError, InputError), match="reference 'short' gave"):
            attnx.explain(zoo.model(), zoo.tokenizer(), "keys to the", references="short")
    finally:
        REFERENCES.remove("short")


@pytest.mark.parametrize("answer", [lambda cases: [], lambda cases: [np.zeros(3) for _ in cases]])
def test_a_plug_in_that_gives_something_else_is_named(answer):
    REFERENCES.add("odd", Reference("odd", lambda model, processor, cases, *, progress=False: answer(cases)))
    try:
        with pytest.raises(InputError, match="reference 'odd' must give a list of 1: a Scored for each case"):
            attnx.explain(zoo.model(), zoo.tokenizer(), "keys", references="odd")
    finally:
        REFERENCES.remove("odd")


def test_the_progress_of_a_reference_is_no_option_of_the_user():
    with pytest.raises(ChoiceError, match="option of blankout 'progress' is not known"):
        attnx.explain(zoo.model(), zoo.tokenizer(), "keys", references={"blankout": {"progress": True}})


def test_a_bad_text_among_many_is_named_by_its_number():
    with pytest.raises(InputError, match="text 19 of 20: the text is empty"):
        attnx.compare(zoo.model(), zoo.tokenizer(), ["keys"] * 18 + ["", "keys"], progress=False)


def test_a_chat_is_one_text_to_all_questions_over_texts():
    model, tokenizer = families.causal_lm(), copy.deepcopy(families.bytelevel_tokenizer())
    tokenizer.chat_template = "{% for one in messages %}{{ one['role'] }}: {{ one['content'] }}{% endfor %}"
    chat = [{"role": "user", "content": "the key to the cabinets"}]
    asked = {"progress": False, "against": "gradient"}
    assert len(attnx.compare(model, tokenizer, chat, **asked).texts) == 1
    assert len(attnx.compare(model, tokenizer, [chat, chat], **asked).texts) == 2
    assert len(attnx.head_atlas(model, tokenizer, chat, **asked).texts) == 1
    measured = attnx.faithfulness(model, tokenizer, chat, steps=2, random=1, references="gradient", progress=False)
    assert len(measured.values["gradient"]) == 1
