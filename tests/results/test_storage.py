"""Files: what is none is refused."""

import json
from functools import reduce

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import attnx
from attnx.errors import AttnxError, FileFormatError
from attnx.results import plain, storage
from tests.results import examples


def header_and_numbers(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["attnx"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


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
    "an older version": lambda path: spoiled(path, {"attnx": '{"format": 1, "kind": "explanation"}'}),
    "half a new header": lambda path: spoiled(path, {"attnx": '{"format": 3, "kind": "explanation"}'}),
}


@pytest.mark.parametrize("kind", NOT_EXPLANATIONS)
def test_a_file_that_is_no_explanation_is_refused(kind, tmp_path):
    path = tmp_path / "x.safetensors"
    NOT_EXPLANATIONS[kind](path)
    with pytest.raises(FileFormatError) as caught:
        attnx.Explanation.load(path)
    assert isinstance(caught.value, AttnxError)


TAMPERED = {
    "positions": [],
    "position": 99,
    "words": [{"index": 0, "text": "x", "positions": [99], "segment": 0}],
    "text": ["a"],
    "attributions": 5,
    "attributions.gradient.scores": {"attnx.tensor": "missing"},
    "attributions.flow.layers": [1],
    "attributions.flow.diagnostics": {"saturation": [0.5]},
    "prediction": {"label": "x"},
}


@pytest.mark.parametrize("field", TAMPERED)
def test_a_header_that_was_tampered_with_is_refused(field, tmp_path):
    path = tmp_path / "x.safetensors"
    examples.explanation().save(path)
    header, numbers = header_and_numbers(path)
    *parents, name = field.split(".")
    reduce(dict.__getitem__, parents, header)[name] = TAMPERED[field]
    text = json.dumps(header)
    save_file(numbers, path, metadata={"attnx": text, "attnx.sha256": storage._checksum(text, numbers)})
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
