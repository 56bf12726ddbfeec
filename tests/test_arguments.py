"""A wrong argument is one line that says what was meant."""

import numpy as np
import pytest
import torch

import attnx
from attnx.adapters import read_texts
from attnx.arguments import path_of
from attnx.cli.main import main
from attnx.errors import ArgumentError, AttnxError, InputError
from tests import zoo

ATTENTION = np.full((2, 2, 3, 3), 1 / 3)


def explain(**options):
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": 1}, "methods must be a name, or several in a list, found 1"),
        ({"methods": [1]}, "method 1 is not known"),
        ({"methods": [[0]]}, "is not known"),
        ({"references": 1}, "references must be a name"),
        ({"references": [["gradient"]]}, "is not known"),
        ({"batch_size": "x"}, "batch_size must be a whole number, found 'x'"),
        ({"batch_size": 1.5}, "batch_size must be a whole number"),
        ({"truncate": "no"}, "truncate must be True or False"),
        ({"residual": "half"}, "residual must be between"),
        ({"discard_ratio": "half"}, "discard_ratio must be at least 0"),
        ({"normalize": 3}, "normalize must be a name"),
        ({"method": "raw"}, "argument of explain 'method' is not known; .*did you mean 'methods'"),
        ({"target": "9" * 5000}, "target .* is not known"),
        ({"target": 10**5000}, "target is a number of 16610 bits"),
        ({"layer": 10**5000}, "layer is a number of 16610 bits"),
        ({"methods": {"gradient": 1}}, "options of gradient are a dictionary, found 1"),
        ({"references": {"gradient": 1}}, "options of gradient are a dictionary, found 1"),
    ],
)
def test_wrong_arguments_of_explain(options, said):
    with pytest.raises(AttnxError, match=said) as raised:
        explain(**options)
    assert len(str(raised.value)) < 700
    assert "\n" not in str(raised.value)


def test_an_argument_that_is_missing():
    with pytest.raises(ArgumentError, match="explain: missing a required argument: 'text'"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer())


@pytest.mark.parametrize("solver", [[0], None, 1, "fast"])
def test_wrong_solvers(solver):
    with pytest.raises(AttnxError, match=r"solver .* is not known; there are: exact, networkx"):
        attnx.flow(ATTENTION, solver=solver)


@pytest.mark.parametrize("function", ["compare", "faithfulness", "head_atlas"])
def test_options_that_are_passed_on_are_checked_too(function):
    with pytest.raises(ArgumentError, match=r"'layr' is not known.*did you mean 'layer'"):
        getattr(attnx, function)(zoo.classifier(), zoo.wordpiece_tokenizer(), ["a witty film"], progress=False, layr=1)


def test_numbers_of_other_libraries_are_numbers():
    expected = explain(layer=1, residual=0.5)
    found = explain(layer=np.int64(1), residual=np.float64(0.5), batch_size=torch.tensor(2), truncate=np.True_)
    np.testing.assert_array_equal(found["rollout"], expected["rollout"])


@pytest.mark.parametrize("path", [None, 1, b"bytes", "a\0b", "\ud800"])
def test_what_is_no_path_is_refused_before_anything_is_written(path, tmp_path):
    explanation = explain(methods="raw")
    for call in (
        lambda: explanation.save(path),
        lambda: attnx.Explanation.load(path),
        lambda: read_texts(path),
        lambda: path_of(path),
    ):
        with pytest.raises(ArgumentError, match=r"path|file"):
            call()


@pytest.mark.parametrize("name", ["x.pkl", "x", "x.safetensors.gz", ".safetensors"])
def test_the_end_of_a_files_name_is_one_rule_in_python_and_on_the_command_line(name, tmp_path, monkeypatch, capsys):
    explanation, path = explain(methods="raw"), tmp_path / name
    with pytest.raises(InputError) as error:
        explanation.save(path)
    monkeypatch.setattr("sys.argv", ["attnx", "explain", "the key", "--output", str(path)])
    with pytest.raises(SystemExit):
        main()
    assert str(error.value) == f"save takes a file that ends in .safetensors, found {name!r}"
    expected = f"--output takes a file that ends in .safetensors, .html, .json, .csv, .md or .txt, found {name!r}"
    assert expected in capsys.readouterr().err
    with pytest.raises(InputError, match=r"to_html takes a file that ends in \.html or \.htm, found"):
        explanation.to_html(path)
    assert not path.exists()
    explanation.save(tmp_path / "X.SAFETENSORS")
    assert attnx.Explanation.load(tmp_path / "X.SAFETENSORS") == explanation


def test_messages_are_never_longer_than_a_few_lines_and_keep_their_end():
    message = str(AttnxError("found " + "x" * 10_000 + "; give another"))
    assert len(message) < 700
    assert message.startswith("found x")
    assert message.endswith("; give another")
