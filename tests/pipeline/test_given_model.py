"""A model in a pipeline, by its name, or without its tokenizer."""

import pytest
import transformers

import attnx
from attnx.demo_models.dates import load_demo as load_dates
from attnx.errors import ArgumentError
from attnx.pipeline import given_model
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


def test_all_functions_take_a_pipeline_and_a_path(saved):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    few = {"methods": "rollout", "references": "gradient", "progress": False}
    for function in (attnx.compare, attnx.faithfulness, attnx.recommend, attnx.head_atlas):
        plain = function(model, tokenizer, ["a witty film"], **few)
        assert function(pipeline, ["a witty film"], **few).to_json() == plain.to_json()
        assert type(function(saved, ["a witty film"], **few)) is type(plain)
    e = attnx.explain(model, tokenizer, "a witty film", **OPTIONS)
    plain = attnx.counterfactual(model, tokenizer, e, {"witty": "dull"}, **OPTIONS)
    for given in (pipeline, saved):
        edited = attnx.counterfactual(given, e, {"witty": "dull"}, **OPTIONS)
        assert (edited.explanations[1]["rollout"] == plain.explanations[1]["rollout"]).all()


def test_generation_takes_a_pipeline_and_a_path(tmp_path):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pipeline = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    plain = attnx.explain_generation(model, tokenizer, "the key", max_new_tokens=2, methods="raw")
    for given in (pipeline, tmp_path, str(tmp_path)):
        g = attnx.explain_generation(given, "the key", max_new_tokens=2, methods="raw")
        assert (g.text, g["raw"].tolist()) == (plain.text, plain["raw"].tolist())
    with pytest.raises(ArgumentError, match="explain_generation: missing a required argument: 'prompt'"):
        attnx.explain_generation(pipeline)


def test_alignment_takes_a_pipeline_in_place_of_both(monkeypatch):
    model, tokenizer = load_dates()

    class Pipeline(transformers.Pipeline):
        """That of translation is no more in transformers 5."""

        def __init__(self):
            self.model, self.tokenizer = model, tokenizer

    monkeypatch.setattr(Pipeline, "__abstractmethods__", frozenset())
    pair = (["the third of march 1998"], ["1998 03 03"])
    assert attnx.align(Pipeline(), *pair).pairs() == attnx.align(model, tokenizer, *pair).pairs()


def test_a_series_of_texts_is_a_list():
    pandas = pytest.importorskip("pandas")
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    texts = pandas.Series(["a witty film", "the key"], index=[7, 3])
    found = attnx.explain(model, tokenizer, texts, **OPTIONS)
    assert [one.text for one in found] == ["a witty film", "the key"]
    few = {"methods": "rollout", "against": "gradient", "progress": False}
    assert attnx.compare(model, tokenizer, texts, **few).cell("rollout", "gradient L3").count == 2


def test_workers_in_other_directories_get_the_whole_path_of_a_model(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    assert given_model(saved.name).name == str(saved)


def test_what_is_missing_is_told():
    with pytest.raises(ArgumentError, match="BertForSequenceClassification comes without its tokenizer; load it"):
        attnx.explain(zoo.classifier(), text="a witty film")
    with pytest.raises(ArgumentError, match="missing a required argument: 'text'"):
        attnx.explain(zoo.classifier(), "a witty film")
    with pytest.raises(ArgumentError, match="a model is one of transformers with its tokenizer, a pipeline"):
        attnx.explain(7, text="a witty film")
