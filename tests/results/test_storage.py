"""Files: what is none is refused, and what older versions wrote is read."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import attnx
from attnx.errors import AttnxError, FileFormatError
from attnx.pronouns.result import Probe, Report
from attnx.results import plain
from tests.results import examples

SAVED = Path(__file__).parent / "saved"
"""Files of format 1, each written by the code of its time."""


def header_and_numbers(path, key="attnx"):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[key]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("name", ["text", "pair_heads", "decoder", "image"])
def test_an_explanation_of_format_1_is_read(name):
    path = SAVED / f"explanation_{name}.safetensors"
    header, numbers = header_and_numbers(path)
    loaded = attnx.Explanation.load(path)
    assert list(loaded.methods) == header["methods"]
    for method in loaded.methods:
        np.testing.assert_array_equal(loaded[method], numbers[method])
    for reference in header["references"]:
        np.testing.assert_array_equal(loaded.references[reference], numbers[f"reference:{reference}"])
    for method in header["maps"]:
        np.testing.assert_array_equal(loaded.maps[method], numbers[f"map:{method}"])
    told = loaded.to_dict()
    same = ("text", "position", "layers", "positions", "words", "prediction", "saturation", "sink", "notes")
    header["prediction"] = with_no_rival(header["prediction"])
    header["positions"] = [{**one, "time": None, "band": None} for one in header["positions"]]  # which came later
    assert {key: told[key] for key in same} == {key: header[key] for key in same}


def with_no_rival(prediction):
    """As it is told today: of no pair, and of no span."""
    later = {"against": None, "against_index": None, "span": None, "beside": [], "predicted_probability": None}
    return prediction if prediction is None else {**prediction, **later}


def test_what_format_1_did_not_keep_is_derived_as_it_was_then():
    text, decoder = (attnx.Explanation.load(SAVED / f"explanation_{name}.safetensors") for name in ("text", "decoder"))
    assert (text.causal, decoder.causal) == (False, True)
    assert text.diagnostics == {"flow": {"saturation": text.saturation}}
    assert (text.digits, text.local, text.signed) == ({"flow": 9}, {"raw"}, frozenset())
    heads = attnx.Explanation.load(SAVED / "explanation_pair_heads.safetensors")
    assert (heads.saturation, heads.diagnostics, heads.digits) == (None, {}, {})


def test_a_generation_of_format_1_is_read():
    header, numbers = header_and_numbers(SAVED / "generation.safetensors", "attnx.generation")
    loaded = attnx.GenerationExplanation.load(SAVED / "generation.safetensors")
    assert list(loaded.methods) == header["methods"]
    np.testing.assert_array_equal(loaded["rollout"], numbers["rollout"])
    header["predictions"] = [with_no_rival(one) for one in header["predictions"]]
    assert {key: loaded.to_dict()[key] for key in ("text", "predictions", "layer")} == {
        key: header[key] for key in ("text", "predictions", "layer")
    }
    with pytest.raises(FileFormatError, match="holds no explanation that this attnx reads: it is an explained gener"):
        attnx.Explanation.load(SAVED / "generation.safetensors")


OLD_JSON = {
    "probe": Probe,
    "report": Report,
}


@pytest.mark.parametrize("name", OLD_JSON)
def test_json_of_format_1_is_read(name):
    text = (SAVED / f"{name}.json").read_text(encoding="utf-8")
    written = json.loads(text)
    written.pop("format", None)
    read = OLD_JSON[name].from_json(text).to_dict()
    assert as_far_as(written, read) == written  # what came later has its default


def as_far_as(written, read):
    """What was read, without the names that were not written."""
    if not isinstance(written, dict):
        return read
    return {name: as_far_as(one, read[name]) for name, one in written.items()}


def spoiled(path, header):
    save_file({"raw": np.zeros((1, 2))}, path, metadata=header)


NOT_EXPLANATIONS = {
    "a text": lambda path: path.write_text("hello"),
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "no header": lambda path: spoiled(path, {}),
    "broken header": lambda path: spoiled(path, {"attnx": "{"}),
    "no object": lambda path: spoiled(path, {"attnx": "[]"}),
    "another version": lambda path: spoiled(path, {"attnx": '{"format": 99, "methods": []}'}),
    "half a header": lambda path: spoiled(path, {"attnx": '{"format": 1, "methods": ["raw"]}'}),
    "half a new header": lambda path: spoiled(path, {"attnx": '{"format": 2, "kind": "explanation"}'}),
    "missing numbers": lambda path: spoiled(path, {"attnx": '{"format": 1, "methods": ["rollout"]}'}),
}


@pytest.mark.parametrize("kind", NOT_EXPLANATIONS)
def test_a_file_that_is_no_explanation_is_refused(kind, tmp_path):
    path = tmp_path / "x.safetensors"
    NOT_EXPLANATIONS[kind](path)
    with pytest.raises(FileFormatError) as caught:
        attnx.Explanation.load(path)
    assert isinstance(caught.value, AttnxError)


TAMPERED = {
    "layers": [1],
    "positions": [],
    "position": 99,
    "words": [{"index": 0, "text": "x", "positions": [99], "segment": 0}],
    "text": ["a"],
    "relevance": 5,
    "references": {"gradient": {"attnx.tensor": "missing"}},
    "prediction": {"label": "x"},
    "diagnostics": {"flow": {"saturation": [0.5]}},
}


@pytest.mark.parametrize("field", TAMPERED)
def test_a_header_that_was_tampered_with_is_refused(field, tmp_path):
    path = tmp_path / "x.safetensors"
    examples.explanation().save(path)
    header, numbers = header_and_numbers(path)
    save_file(numbers, path, metadata={"attnx": json.dumps(header | {field: TAMPERED[field]})})
    with pytest.raises(FileFormatError):
        attnx.Explanation.load(path)


def test_names_with_strokes_are_kept_apart(tmp_path):
    grids = np.zeros((1, 1))
    values = {"carried": grids, "a/b": grids + 1, "a~1b": grids + 2, "a": grids + 3}
    made = attnx.HeadAtlas(
        values=values, columns=("L1 h0",), method="rollout", measure="spearman", layers=(1,), texts=("one",)
    )
    made.save(tmp_path / "x.safetensors")
    assert attnx.HeadAtlas.load(tmp_path / "x.safetensors") == made


def test_plain_values_are_those_of_json():
    made = {"a": np.float32(0.5), "b": (1, np.nan), "c": frozenset("ba"), "d": np.array([[np.nan, 1.0]]), "e": True}
    assert plain(made) == {"a": 0.5, "b": [1, None], "c": ["a", "b"], "d": [[None, 1.0]], "e": True}
