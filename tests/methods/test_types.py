"""What a type checker knows of the methods: the kind that goes in comes out, and a wrong keyword is found."""

from pathlib import Path

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
    assert_type(attnx.{method}(layers, head="all"), torch.Tensor)
    assert_type(attnx.{method}(seen, residual=0.5, normalize="prefix"), torch.Tensor)
    attnx.{method}(array, layr=2)
    attnx.{method}("a text")
"""


@pytest.mark.slow
def test_overloads_tell_the_kind(tmp_path):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    methods = ("raw", "rollout", "flow")
    paths = [tmp_path / f"{method}.py" for method in methods]
    for method, path in zip(methods, paths, strict=True):
        path.write_text(CALLS.replace("{method}", method))
    printed, errors, _ = api.run([*map(str, paths), "--strict"])
    assert errors == ""
    found = [line.split(":")[:3] for line in printed.splitlines() if ": error:" in line]
    wrong = {Path(file).read_text().splitlines()[int(number) - 1].strip() for file, number, _ in found}
    assert wrong == {f"attnx.{method}({given})" for method in methods for given in ("array, layr=2", '"a text"')}, (
        printed
    )
