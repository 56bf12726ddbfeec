"""Chat templates are applied to messages, and to nothing else."""

import copy

import pytest

import attnx
from attnx.errors import InputError
from tests import zoo

MESSAGES = [{"role": "user", "content": "the key"}]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer():
    made = copy.deepcopy(zoo.bytelevel_tokenizer())
    made.chat_template = TEMPLATE
    return made


def test_messages_are_written_out_by_the_template(tokenizer):
    one = attnx.explain(zoo.causal_lm(), tokenizer, MESSAGES, methods="rollout")
    assert one.text == "<|endoftext|>user: the key\nassistant:"
    assert one.tokens.count("<|endoftext|>") == 1
    several = attnx.explain(zoo.causal_lm(), tokenizer, [MESSAGES, MESSAGES], methods="rollout")
    assert [other.text for other in several] == [one.text] * 2


def test_an_answer_that_is_there_is_not_asked_for(tokenizer):
    answered = [*MESSAGES, {"role": "assistant", "content": "is"}]
    assert attnx.explain(zoo.causal_lm(), tokenizer, answered, methods="raw").text.endswith("assistant: is\n")


def test_a_text_is_left_alone(tokenizer):
    assert attnx.explain(zoo.causal_lm(), tokenizer, "the key", methods="raw").text == "the key"


def test_a_generation_goes_on_from_messages(tokenizer):
    one = attnx.explain_generation(zoo.causal_lm(), tokenizer, MESSAGES, max_new_tokens=2, methods="raw")
    assert one.text.startswith("<|endoftext|>user: the key\nassistant:")


def test_without_a_template_messages_are_refused():
    with pytest.raises(InputError, match="needs a chat template, and"):
        attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), MESSAGES)


def test_a_logged_reply_to_messages_is_explained(tokenizer):
    prompt = attnx.explain(zoo.causal_lm(), tokenizer, MESSAGES, methods="raw")
    g = attnx.explain_generation(zoo.causal_lm(), tokenizer, MESSAGES, continuation=" the key", methods="raw")
    assert g.text == prompt.text + " the key"
    assert "".join(g.generated) == " the key"
    assert g.prompt_length == len(prompt.positions)
    (role, start, end), *more = g.parts
    assert (role, more) == ("user", [])
    assert "".join(one.piece([g.text]) for one in g.positions[start:end]).strip() == "the key"


def test_a_reply_that_is_begun_in_the_messages_goes_on(tokenizer):
    begun = [*MESSAGES, {"role": "assistant", "content": "is"}]
    g = attnx.explain_generation(zoo.causal_lm(), tokenizer, begun, continuation=" the key", methods="raw")
    assert g.text.endswith("assistant: is the key")
    assert "".join(g.generated) == " the key"


@pytest.mark.parametrize("kind", [dict, lambda encoding: encoding])
def test_ids_of_a_template_have_words(tokenizer, kind):
    ids = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = attnx.explain(zoo.causal_lm(), tokenizer, MESSAGES, methods="raw")
    read = attnx.explain(zoo.causal_lm(), tokenizer, kind(ids), methods="raw")
    assert (read.positions, read.words, read.text) == (said.positions, said.words, said.text)


def test_ids_that_no_text_is_tokenised_into_are_tokens_by_themselves(tokenizer):
    ids = [tokenizer.convert_tokens_to_ids(one) for one in "key"]  # a text would have fewer tokens
    read = attnx.explain(zoo.causal_lm(), tokenizer, {"input_ids": ids}, methods="raw")
    assert ([word.text for word in read.words], read.text) == (["k", "e", "y"], None)
