"""Table 3 takes the gradients and the relevance that each protocol names."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from scipy import stats

import attnx
from attnx.errors import AttnxError, InputError
from attnx.methods.flow import rounded
from attnx.paper import reviews, table3
from attnx.paper.tables import CORRECTED, PUBLISHED_TABLE_3, gradient_scores, relevance_rows
from tests import zoo

LINES = (
    "label\tsentence\n1\ta witty film\n0\tit was a dull and bad movie\n1\tthe book is gorgeous !\n0\tbad , bad film\n"
)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """(model, tokenizer, sentences) of a tiny DistilBERT."""
    torch.manual_seed(1)
    config = transformers.DistilBertConfig(vocab_size=43, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    model = transformers.DistilBertForSequenceClassification(config).eval()
    path = tmp_path_factory.mktemp("sst2") / "test.tsv"
    path.write_text(LINES)
    return model, zoo.wordpiece_tokenizer(), reviews(model, zoo.wordpiece_tokenizer(), path, 100)


@pytest.fixture(scope="module")
def table(subject):
    return table3(*subject)


def slopes(model, prepared, index, embed):
    embedded = embed(prepared.inputs["input_ids"][None]).detach().requires_grad_()
    model(inputs_embeds=embedded).logits[0, index].backward()
    return embedded.grad[0].double()


def test_published_takes_twice_embedded_gradients_of_the_positive_class_which_sum_to_nothing(subject):
    model, tokenizer, sentences = subject
    layer = model.distilbert.embeddings
    found = gradient_scores(model, tokenizer, sentences.prepared, [PUBLISHED_TABLE_3])
    for prepared, scores in zip(sentences.prepared, found[PUBLISHED_TABLE_3], strict=True):
        vectors = slopes(model, prepared, 1, layer)
        assert np.abs(scores).max() < 1e-5 * vectors.norm(dim=-1).max()
    longer = replace(PUBLISHED_TABLE_3, gradient_reduction="norm")
    found = gradient_scores(model, tokenizer, sentences.prepared, [longer])
    for prepared, scores in zip(sentences.prepared, found[longer], strict=True):
        np.testing.assert_allclose(scores, slopes(model, prepared, 1, layer).norm(dim=-1), rtol=1e-4)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_published_relevance_is_the_maximum_over_all_rows(subject, method):
    model, tokenizer, sentences = subject
    for prepared, row in zip(
        sentences.prepared, relevance_rows(model, tokenizer, sentences.prepared, "maximum"), strict=True
    ):
        attention = attnx.capture(model, input_ids=prepared.inputs["input_ids"][None])
        np.testing.assert_allclose(row.scores[method], getattr(attnx, method)(attention).amax(1), atol=1e-6)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_corrected_ranks_the_cls_row_with_norms_of_the_predicted_class(subject, table, method):
    model, _, sentences = subject
    expected = []
    for prepared in sentences.prepared:
        ids = prepared.inputs["input_ids"][None]
        index = int(model(ids).logits.argmax())
        reference = slopes(model, prepared, index, model.get_input_embeddings()).norm(dim=-1).numpy()[1:-1]
        rows = rounded(getattr(attnx, method)(attnx.capture(model, input_ids=ids), position=0).numpy()[:, 1:-1])
        expected.append([stats.spearmanr(row, reference).statistic for row in rows])
    cells = table.by_layer(method, CORRECTED)
    assert [cell.mean for cell in cells] == pytest.approx(np.mean(expected, 0).tolist(), abs=1e-6)


def test_layers_that_the_paper_does_not_print_have_a_dash(table):
    assert table.to_text().splitlines()[3].split()[-2:] == [".12±.21", "–"]


def test_labels_that_glue_keeps_to_itself_are_no_labels(subject, tmp_path):
    model, tokenizer, sentences = subject
    assert sentences.labels == [1, 0, 1, 0]
    path = tmp_path / "test.tsv"
    path.write_text(LINES.replace("\n1\t", "\n-1\t").replace("\n0\t", "\n-1\t"))
    hidden = reviews(model, tokenizer, path, 2)
    assert hidden.labels == [None, None]
    assert "model right" not in table3(model, tokenizer, hidden).to_text()


def test_bad_input_is_said_in_one_line(subject, tmp_path):
    model, tokenizer, sentences = subject
    path = tmp_path / "test.tsv"
    path.write_text(LINES.replace("\n1\t", "\ngood\t"))
    with pytest.raises(InputError, match="label 'good' of 'a witty film' is not 0"):
        reviews(model, tokenizer, path, 2)
    with pytest.raises(InputError, match="--samples must be at least 1"):
        reviews(model, tokenizer, path, 0)
    with pytest.raises(InputError, match="has no embedding layer that could be applied twice"):
        table3(zoo.model("gpt2"), tokenizer, sentences)


def test_without_a_file_and_without_a_hub_the_way_out_is_named(subject):
    model, tokenizer, _ = subject
    with pytest.raises(AttnxError, match="--data"):
        reviews(model, tokenizer, None, 3)


@pytest.mark.slow
def test_on_the_shared_checkpoint_both_protocols_run_and_agree_with_nothing_adjusted(assets):
    from attnx.pipeline import load

    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    sentences = reviews(model, tokenizer, assets / "sst2" / "test.tsv.gz", 8)
    found = table3(model, tokenizer, sentences)
    assert found.accuracy >= 0.75
    assert abs(found.cell("rollout", "published 6").mean) < 0.3
    assert found.cell("rollout", "corrected 6").mean > 0
