"""What a type checker knows of the methods: the kind that goes in comes out, and a wrong keyword is found."""

import pytest

CALLS = """
from typing import Any, assert_type

import numpy as np
import torch

import attnx

Array = np.ndarray[Any, np.dtype[Any]]


def kinds(array: Array, tensor: torch.Tensor, layers: tuple[torch.Tensor, ...], seen: attnx.AttentionTensor) -> None:
    assert_type(attnx.{method}(array, layer=2), Array)
    assert_type(attnx.{method}(tensor, position=0), torch.Tensor)
    assert_type(attnx.{method}(layers, head="each"), torch.Tensor)
    assert_type(attnx.{method}(seen, residual=0.5, normalize="prefix"), torch.Tensor)
    attnx.{method}(array, layr=2)
    attnx.{method}("a text")
"""


@pytest.mark.slow
def test_overloads_tell_the_kind(tmp_path):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    for method in ("raw", "rollout", "flow"):
        path = tmp_path / f"{method}.py"
        path.write_text(CALLS.replace("{method}", method))
        lines = path.read_text().splitlines()
        printed, errors, _ = api.run([str(path), "--strict"])
        assert errors == ""
        wrong = {lines[int(line.split(":")[1]) - 1].strip() for line in printed.splitlines() if ": error:" in line}
        assert wrong == {f"attnx.{method}(array, layr=2)", f'attnx.{method}("a text")'}, printed
