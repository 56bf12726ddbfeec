"""What is loaded is what was saved: a file that says anything else is refused in a line that names the place."""

import copy
import dataclasses
import json
import random
from functools import partial

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import attnx
from attnx.errors import AttnxError, FileFormatError
from attnx.results import storage
from tests.made import with_scores
from tests.results import examples

HOSTILE = [
    None,
    True,
    -1,
    0,
    99,
    2**70,
    10**400,
    1.5,
    -0.5,
    1e308,
    "",
    "x",
    "\ud800",
    "\x1b]0;owned\x07",
    [],
    [[]],
    [1],
]
HOSTILE += [["a", "b"], {}, {"a": 1}, [None, None], "9" * 5000]


@pytest.fixture(params=examples.EXAMPLES, ids=lambda make: make.__name__)
def made(request):
    return request.param()


def places(told, path=()):
    """The path of everything in a JSON document but the whole."""
    members = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ()
    for name, one in members:
        yield (*path, name)
        yield from places(one, (*path, name))


def at(told, path):
    for name in path:
        told = told[name]
    return told


def mutations(told):
    """Functions that make the document with one member replaced by something else, left out, or joined by one that is
    not known: a document has thousands of them, of which a test looks at some."""
    for path in places(told):
        *above, name = path
        yield from (partial(changed, told, above, name, value) for value in HOSTILE)
        yield partial(changed, told, above, name)
        if isinstance(at(told, path), dict):
            yield partial(changed, told, path, "unheard of", 1)


def changed(told, path, name, *value):
    """The document with this value of a name at a path; without the name, if there is no value."""
    told = copy.deepcopy(told)
    if value:
        at(told, path)[name] = value[0]
    else:
        del at(told, path)[name]
    return told


def look_at(result, *, also_plot=False):
    """Everything that a reader may do with it: what it cannot do is an `AttnxError`."""
    for view in (repr, str, hash, type(result).to_markdown, type(result).to_csv, type(result).to_html):
        view(result)
    result.to_json()
    for name in ("top", "best", "sentence"):
        read = getattr(result, name, list)
        _ = read() if callable(read) else read
    if also_plot:
        from matplotlib import pyplot

        try:
            result.plot()
        except AttnxError:
            pass
        finally:
            pyplot.close("all")


def judge(kind, document, *, also_plot=False):
    """Refused in a line, or sound in every view. Whether it was refused."""
    try:
        result = kind.from_json(json.dumps(document))
    except FileFormatError as error:
        said = str(error)
    else:
        look_at(result, also_plot=also_plot)
        return False
    assert "\n" not in said
    assert len(said) < 400
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_whatever_a_document_says_is_refused_or_can_be_looked_at(made):
    """A sample; `slow` has others, and draws them."""
    several = list(mutations(json.loads(made.to_json())))
    chosen = random.Random(0).sample(several, 60)
    assert sum(judge(type(made), change()) for change in chosen) > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_refused_can_be_looked_at_and_drawn(made):
    for change in random.Random(1).sample(list(mutations(json.loads(made.to_json()))), 120):
        judge(type(made), change(), also_plot=True)


def test_each_field_is_asked_for_by_name(made):
    told = json.loads(made.to_json())
    for field in dataclasses.fields(made):
        if field.compare:
            without = json.dumps({name: one for name, one in told.items() if name != field.name})
            with pytest.raises(FileFormatError, match=f"{field.name} is missing"):
                type(made).from_json(without)
            with pytest.raises(FileFormatError, match=f"{field.name}"):
                type(made).from_json(json.dumps(told | {field.name: {"x": [["\ud800"]]}}))
    with pytest.raises(FileFormatError, match="unheard of is no field"):
        type(made).from_json(json.dumps(told | {"unheard of": 1}))


def changed_explanation(**fields):
    return json.dumps(json.loads(examples.explanation().to_json()) | fields)


POSITION = {
    "index": 0,
    "token": "a",
    "special": False,
    "start": None,
    "end": None,
    "segment": 0,
    "word": 0,
    "box": None,
    "time": None,
    "band": None,
}
MORE = {
    "against": None,
    "against_index": None,
    "span": None,
    "beside": [],
    "predicted_probability": None,
    "labels": ["a"],
}
WORD = {"index": 0, "text": "a", "positions": [1], "segment": 0}


def one_method(**changes):
    """An explanation by raw attention alone, with these fields of its attribution."""
    attribution = json.loads(examples.explanation().to_json())["attributions"]["raw"]
    return {"attributions": {"raw": attribution | changes}}


def one_generated(**changes):
    attribution = json.loads(examples.generation().to_json())["attributions"]["rollout"]
    return {"attributions": {"rollout": attribution | changes}}


REFUSED = {
    "attributions['raw'].layers must be whole numbers from 1 that rise": one_method(layers=[2, 1]),
    "attributions['raw'].layers[1] must be a whole number, found True": one_method(layers=[1, True]),
    "words[0].positions[1] must be a place in positions (0 to 2), found 3": {"words": [WORD | {"positions": [1, 3]}]},
    "words must be in the order of their indices": {"words": [WORD | {"index": 1}]},
    "positions[2].word must be a place in words": {
        "positions": [POSITION, POSITION | {"index": 1}, POSITION | {"index": 2, "word": 7}]
    },
    "positions[0].box must be a list of 4": {"positions": [POSITION | {"box": [0, 1]}] * 3},
    "positions[0].color is no field": {"positions": [POSITION | {"color": 1}] * 3},
    "the scores of raw must be finite numbers for 2 layers × 3 positions, found 2 × 2": one_method(
        scores=[[1, 2], [3, 4]]
    ),
    "the scores of raw must be finite numbers": one_method(scores=[[1, 2, None], [3, 4, 5]]),
    "attributions['raw'].scores must be numbers in lists of one length": one_method(scores=[[1, 2, "3"], [3, 4, 5]]),
    "the scores of raw must be finite numbers for 3 positions, found 2": one_method(layers=None, scores=[1, 2])
    | {"sink": None},
    "position must be a place in positions (0 to 2), found -1": {"position": -1},
    "prediction must be with labels and logits of one length": {
        "prediction": {"kind": "class", "label": "a", "index": 0, "probability": 1, "labels": ["a"], "logits": []}
        | MORE
    },
    "prediction.kind must be a text, found 1": {
        "prediction": {"kind": 1, "label": "a", "index": 0, "probability": 1, "labels": [], "logits": []}
    },
    "sink must be numbers for 2 layers": {"sink": [0.5]},
    "attributions['raw'].precision must be 0 to 17, found 400": one_method(precision=400),
    "image_size must be a width and a height from 1": {"image_size": [0, 5]},
    "with 178,956,970 pixels at most": {"image_size": [10**6, 10**6]},
    "positions[0].box must be left, top, right and bottom of a rectangle": {
        "positions": [POSITION | {"index": index, "box": [0, 0, 0, 5]} for index in range(3)]
    },
    "positions[0].segment must be the number of a text (0 to 0), found 1": {
        "positions": [POSITION | {"index": index, "segment": 1} for index in range(3)]
    },
    "prediction must be with an index in its labels": {
        "prediction": {"kind": "class", "label": "a", "index": 7, "probability": 1, "labels": ["a"], "logits": [1]}
        | MORE
    },
    "sequences must be the lengths of source and output": {"sequences": {"picture": 3}},
    "or of text and picture, 3 in all": {"sequences": {"source": -1, "output": 4}},
    "text must be a text": {"text": 5},
    "attributions must be 1 or more, found {}": {"attributions": {}},
    "the matrices of raw must be 2 × 3 × 3": one_method(matrices=[[[1, 2, 3]]]),
    "saturation of raw must be 2 numbers, one a layer": one_method(diagnostics={"saturation": [0.5]}),
    "provenance.methods must be an object": {"provenance": {"methods": 5}},
    "attributions['raw'].diagnostics must be an object, whose biases and value": one_method(
        diagnostics={"biases": "many"}
    ),
    "diagnostics must be an object, whose biases and value are finite": one_method(diagnostics={"biases": 1.0}),
    "provenance.settings.residual must be an object": {"provenance": {"settings": {"residual": "all"}}},
    "provenance.settings.layer_kinds must be a list of 2 or more texts": {
        "provenance": {"settings": {"layer_kinds": ["cross"]}}
    },
    "provenance.input.cut must be a list of two whole numbers": {"provenance": {"input": {"cut": [1]}}},
    "provenance.input.unknown must be a list of texts": {"provenance": {"input": {"unknown": 5}}},
    "provenance.input.prepend_token must be a text": {"provenance": {"input": {"prepend_token": []}}},
}
CHANCE = {"kind": "token", "label": "a", "index": 0, "labels": ["a"], "logits": [1.0]} | MORE
REFUSED_GENERATIONS = {
    "positions[0].segment must be the number of a text": {
        "positions": [POSITION | {"index": index, "segment": 1} for index in range(3)]
    },
    "predictions[0] must be with a probability from 0 to 1": {"predictions": [CHANCE | {"probability": None}]},
    "rollout must be 2 layers × 1 generated × 2 source": one_generated(layers=[1, 2]),
    "rollout must be 1 generated × 2 source": one_generated(scores=[[[0.25]]]),
    "value of rollout must be a list of 1": one_generated(diagnostics={"value": [1.0, 2.0]}),
    "contrasts must be a list of 1": {"contrasts": [CHANCE | {"probability": 0.5}] * 2},
    "provenance.input.parts must be a list of [role": {"provenance": {"input": {"parts": [["user", 0]]}}},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_does_not_fit_is_named(said):
    with pytest.raises(FileFormatError) as raised:
        attnx.Explanation.from_json(changed_explanation(**REFUSED[said]))
    assert said in str(raised.value)


@pytest.mark.parametrize("expected", REFUSED_GENERATIONS)
def test_what_does_not_fit_in_a_generation_is_named(expected):
    document = json.loads(examples.generation().to_json()) | REFUSED_GENERATIONS[expected]
    with pytest.raises(FileFormatError) as raised:
        attnx.GenerationExplanation.from_json(json.dumps(document))
    assert expected in str(raised.value)


def test_a_comparison_with_nothing_is_refused():
    document = json.loads(examples.comparison().to_json()) | {"values": {}, "ceiling": {}}
    with pytest.raises(FileFormatError, match="columns must be each reference at each layer"):
        attnx.Comparison.from_json(json.dumps(document))


def test_an_axis_of_heads_without_a_head_is_refused(tmp_path):
    made = examples.explanation()
    with pytest.raises(AttnxError, match="for 2 layers × 3 positions, found 2 × 0 × 3"):
        with_scores(made, relevance={"raw": np.zeros((2, 0, 3))}, maps={})


def test_a_token_beside_one_that_was_ruled_out_has_no_number_that_json_lacks():
    """A suppressed token that the caller wrote has the least logit there is: the ratio to it is no number."""
    token = dataclasses.replace(examples.ANSWER, label="a", probability=0.0, labels=("a", "b"), logits=(-1e38, 3.0))
    forged = dataclasses.replace(token, probability=0.5)
    assert dataclasses.replace(examples.generation(), predictions=(forged,)).alternatives(0) == [("b", 1.0)]
    made = dataclasses.replace(examples.generation(), predictions=(token,))
    assert made.alternatives(0) == [("b", None)]
    made.to_html()


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(constant):
    text = examples.faithfulness().to_json().replace("0.125", constant)
    with pytest.raises(FileFormatError, match="is no number of JSON"):
        attnx.Faithfulness.from_json(text)


def test_what_is_shown_first_survives_a_file(tmp_path):
    made = with_scores(examples.explanation(), first="gradient")
    made.save(tmp_path / "x.safetensors")
    for again in (attnx.Explanation.load(tmp_path / "x.safetensors"), attnx.Explanation.from_json(made.to_json())):
        assert again == made
        assert again.methods[0] == "gradient"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["header", "numbers"])
def test_every_flipped_bit_is_noticed(made, where, tmp_path):
    path = tmp_path / "x.safetensors"
    made.save(path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    span = range(8, header) if where == "header" else range(header, len(whole))
    for place in span[:: 1 + len(span) // 60]:
        for bit in (0, 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            try:
                assert type(made).load(path) == made, place  # a flip in the name of the checksum's own entry
            except FileFormatError as error:
                assert "\n" not in str(error)  # noqa: PT017


def test_a_file_without_its_checksum_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    examples.explanation().save(path)
    header, numbers = opened(path)
    save_file(numbers, path, metadata={"attnx": header["attnx"]})
    with pytest.raises(FileFormatError, match="its checksum is that of other content"):
        attnx.Explanation.load(path)


def test_numbers_that_nothing_speaks_of_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    examples.explanation().save(path)
    header, numbers = opened(path)
    save_file(numbers | {"more": np.zeros(3)}, path, metadata={"attnx": header["attnx"]})
    with pytest.raises(FileFormatError, match="the numbers 'more' belong to nothing"):
        attnx.Explanation.load(path)


def opened(path):
    with safe_open(path, framework="numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_the_checksum_is_over_header_names_types_and_numbers():
    numbers = {"a": np.zeros(2)}
    sums = {
        storage._checksum("x", numbers),
        storage._checksum("y", numbers),
        storage._checksum("x", {"b": np.zeros(2)}),
        storage._checksum("x", {"a": np.zeros((1, 2))}),
        storage._checksum("x", {"a": np.zeros(2, dtype=np.int64)}),
        storage._checksum("x", {"a": np.array([0, -0.0])}),
    }
    assert len(sums) == 6
