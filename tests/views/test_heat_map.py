"""Layers × positions, the last layer on top."""

import numpy as np
import pytest

import attnx
from attnx.errors import ChoiceError
from tests import zoo
from tests.made import with_scores
from tests.views.rows import explanation


def test_colours_are_the_scores_and_the_last_layer_is_on_top(explained):
    axes = explained.plot_layers("flow", special=True)
    np.testing.assert_allclose(axes.images[0].get_array(), explained["flow"])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(explained.tokens)
    bottom, top = axes.get_ylim()
    assert bottom < top


def test_a_scale_stands_beside_it(explained):
    axes = explained.plot_layers(special=True)
    (scale,) = (one for one in axes.figure.axes if one is not axes)
    assert scale.get_ylim() == (0, explained["rollout"].max())


def test_special_tokens_and_punctuation_are_drawn_only_where_asked_for(explained):
    words = [explained.tokens[index] for index in explained.content]
    assert [label.get_text() for label in explained.plot_layers().get_xticklabels()] == words
    content = [label.get_text() for label in explained.plot_layers(content_only=True).get_xticklabels()]
    assert content == [token for token in words if token not in (",", "!")]
    assert len(content) < len(words)


def test_one_head_or_the_mean_of_all():
    each = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", head="all", methods="rollout")
    np.testing.assert_allclose(each.plot_layers(head=2, special=True).images[0].get_array(), each["rollout"][:, 2])
    np.testing.assert_allclose(each.plot_layers(special=True).images[0].get_array(), each["rollout"].mean(1))
    with pytest.raises(ChoiceError, match="head 9 was requested"):
        each.plot_layers(head=9)


def test_a_reference_has_no_layers():
    one = with_scores(explanation("key", "to"), references={"occlusion": np.array([0.0, -0.3, 0.1])})
    with pytest.raises(ChoiceError, match="occlusion has no layers"):
        one.plot_layers("occlusion")


def test_of_many_tokens_every_second_or_third_is_named():
    axes = explanation(*map(str, range(1, 200)), layers=2).plot_layers(special=True)
    assert [label.get_text() for label in axes.get_xticklabels()][:4] == ["[CLS]", "3", "6", "9"]
    assert axes.images[0].get_array().shape == (2, 200)
