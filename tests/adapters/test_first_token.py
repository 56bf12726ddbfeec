"""A neutral token in front of a decoder's text: another input, and said so."""

import numpy as np
import pytest

import attnx
from attnx.errors import ChoiceError, InputError
from tests import zoo

TEXT = "the key to the cabinets"
END = "<|endoftext|>"


def explain(text=TEXT, **options):
    return attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), text, methods="rollout", **options)


def test_it_stands_in_front_as_a_special_position_and_the_rest_moves_up():
    plain, behind = explain(), explain(prepend_token="begin")
    assert behind.tokens == (END, *plain.tokens)
    assert [one.special for one in behind.positions[:2]] == [True, False]
    assert [word.text for word in behind.words] == [word.text for word in plain.words]
    moved = [tuple(place + 1 for place in word.positions) for word in plain.words]
    assert [word.positions for word in behind.words] == moved
    assert [one.index for one in behind.positions] == list(range(len(behind.positions)))
    assert behind.text == plain.text


def test_notes_provenance_and_verdict_say_so():
    behind = explain(prepend_token="begin")
    assert behind.notes == (f"{END} was put in front of the text: the model read another input than the text",)
    assert behind.provenance["input"] == {"prepend_token": END}
    assert f"{END} was put in front" in behind.verdict
    assert "put in front" not in explain().verdict


def test_it_is_the_same_as_tokens_given_with_it():
    tokenizer = zoo.bytelevel_tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer(TEXT)["input_ids"]]
    given = explain({"input_ids": [ids], "attention_mask": [[1] * len(ids)]})
    np.testing.assert_array_equal(explain(prepend_token="begin")["rollout"], given["rollout"])


@pytest.mark.parametrize("asked", ["begin", END, 0])
def test_a_token_is_named_by_its_role_its_name_or_its_id(asked):
    assert explain(prepend_token=asked).tokens[0] == END


def test_a_word_may_stand_in_front():
    assert explain(prepend_token="he").tokens[0] == "he"


def test_every_text_of_a_list_gets_one_and_so_does_a_prompt():
    assert [one.tokens[0] for one in explain([TEXT, "hello world"], prepend_token="begin")] == [END, END]
    for options in ({"max_new_tokens": 2}, {"continuation": " the cabinets"}):
        written = attnx.explain_generation(
            zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the key to", prepend_token="begin", **options
        )
        assert written.tokens[0] == END
        assert written.prompt_length == 1 + len(zoo.bytelevel_tokenizer()("the key to")["input_ids"])
        assert written.positions[0].special
        assert f"{END} was put in front" in written.verdict


def test_what_begins_with_a_special_token_stays_as_it_is():
    tokenizer = zoo.bytelevel_tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer(TEXT)["input_ids"]]
    given = explain({"input_ids": [ids]}, prepend_token="begin")
    assert len(given.tokens) == len(ids)
    assert given.notes == (f"the text begins with {END} as it is: prepend_token was left out",)


def test_errors_teach():
    with pytest.raises(ChoiceError, match="is no decoder"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, prepend_token="begin")
    with pytest.raises(ChoiceError, match=r"'zyzzyva' is no token of the vocabulary, but \d+ of them"):
        explain(prepend_token="zyzzyva")
    with pytest.raises(ChoiceError, match="prepend_token 9999 is no token id"):
        explain(prepend_token=9999)
    with pytest.raises(InputError, match="fills all 64 positions"):
        explain("a " * 200, truncate=True, prepend_token="begin")
