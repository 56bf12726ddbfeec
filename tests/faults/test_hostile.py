"""What nobody should give, and somebody will: each is refused in a line, or has an answer."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

import attnx
from attnx.errors import AttnxError, FileFormatError
from tests import zoo
from tests.results import examples

KEY = "the key"


class Weightless(torch.nn.Module):
    """Has a config, and nothing else."""

    config = zoo.classifier().config

    def forward(self, **inputs):
        raise ValueError("first line\nsecond line")


def of_words(model):
    return attnx.explain(model, zoo.wordpiece_tokenizer(), KEY)


def masked(mask):
    return attnx.capture(zoo.classifier(), input_ids=torch.ones(1, 3, dtype=torch.long), attention_mask=mask)


def spoiled():
    model = copy.deepcopy(zoo.classifier())
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    return model


UNIFORM = np.full((1, 1, 2, 2), 0.5)
REFUSED = {
    "a model without weights": (lambda: of_words(Weightless()), "has no weights"),
    "weights that are NaN": (lambda: of_words(spoiled()), "not finite"),
    "weights that are nowhere": (lambda: of_words(copy.deepcopy(zoo.classifier()).to("meta")), "refused the input"),
    "a mask that hides all": (lambda: masked(torch.zeros(1, 3, dtype=torch.long)), "hides every position"),
    "a list that holds itself": (lambda: of_words_in_a_circle(), "cannot explain list"),
    "complex attention": (lambda: attnx.rollout(UNIFORM.astype(complex)), "numbers of type complex128"),
    "complex tensors": (lambda: attnx.rollout(torch.tensor(UNIFORM) * 1j), "not complex"),
    "sparse attention": (lambda: attnx.flow(torch.tensor(UNIFORM).to_sparse()), "not sparse"),
    "attention of no device": (lambda: attnx.raw(torch.empty(1, 1, 2, 2, device="meta")), "meta device"),
    "objects for attention": (lambda: attnx.raw(np.array([[None]])), "numbers of type object"),
    "a tensor for a switch": (
        lambda: attnx.explain_generation(zoo.causal_lm(), zoo.bytelevel_tokenizer(), "the", do_sample=torch.ones(2)),
        "do_sample must be True or False",
    ),
    "several shares to discard": (
        lambda: attnx.rollout(UNIFORM, discard_ratio=torch.ones(2)),
        "discard_ratio must be one value",
    ),
    "several residuals": (lambda: attnx.rollout(UNIFORM, residual=np.ones(2)), "residual must be one value"),
    "words for attention": (lambda: attnx.raw("x"), "attention must be"),
    "a count that is a word": (lambda: examples.explanation().top("x"), "count must be a whole number"),
    "a count below 0": (lambda: examples.explanation().top(-1), "count must be 0 or more"),
    "a count of heads below 0": (lambda: examples.atlas().best(-1), "count must be 0 or more"),
    "a list for a method": (lambda: examples.explanation()[["raw"]], "is not known"),
    "a list for a generation's method": (lambda: examples.generation()[["raw"]], "is not known"),
    "axes that are none": (lambda: examples.explanation().plot(ax=3), "ax must be matplotlib axes"),
    "a name for the demo": (lambda: attnx.load_demo("x"), "load_demo"),
    "nothing for a document": (lambda: attnx.Explanation.from_dict(None), "the whole must be an object"),
    "bytes for JSON": (lambda: attnx.Explanation.from_json(b"\xff"), "not an explanation"),
    "a device for a file": (lambda: attnx.Explanation.load("/dev/null"), "is no explanation"),
    "a directory for a file": (lambda: examples.explanation().save("/"), "ends in .safetensors"),
}


def of_words_in_a_circle():
    circle = []
    circle.append(circle)
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), circle)


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_a_line(what):
    call, said = REFUSED[what]
    with pytest.raises(AttnxError) as raised:
        call()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_result_that_cannot_be_written_as_json_says_so(tmp_path):
    odd = dataclasses.replace(examples.explanation(), provenance={"settings": {"scale": float("inf")}})
    with pytest.raises(AttnxError, match="cannot write"):
        odd.save(tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    examples.explanation().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            attnx.Explanation.load(path)
