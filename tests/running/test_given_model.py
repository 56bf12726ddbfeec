"""A model in a pipeline, by its name, or without its tokenizer."""

import pytest
import transformers

import attnx
from attnx.errors import ArgumentError
from tests import zoo

OPTIONS = {"methods": "rollout", "references": ()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    zoo.classifier().save_pretrained(folder)
    zoo.wordpiece_tokenizer().save_pretrained(folder)
    return folder


def test_a_pipeline_and_a_path_explain_as_the_model_does(saved):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    plain = attnx.explain(model, tokenizer, "a witty film", **OPTIONS)
    assert attnx.explain(pipeline, "a witty film", **OPTIONS) == plain
    assert attnx.explain(pipeline, text="a witty film", **OPTIONS) == plain
    for by_name in (
        attnx.explain(str(saved), text="a witty film", **OPTIONS),
        attnx.explain(saved, "a witty film", **OPTIONS),
    ):
        assert (by_name["rollout"] == plain["rollout"]).all()


def test_what_is_missing_is_told():
    with pytest.raises(ArgumentError, match="BertForSequenceClassification comes without its tokenizer; load it"):
        attnx.explain(zoo.classifier(), text="a witty film")
    with pytest.raises(ArgumentError, match="missing a required argument: 'text'"):
        attnx.explain(zoo.classifier(), "a witty film")
    with pytest.raises(ArgumentError, match="a model is one of transformers with its tokenizer, a pipeline"):
        attnx.explain(7, text="a witty film")
