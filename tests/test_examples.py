"""Every example runs as its first lines say."""

import ast
import json
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_runs(example, monkeypatch, tmp_path, capsys, no_hub):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebook_runs(notebook, monkeypatch, tmp_path, capsys, no_hub):
    """Its code is plain Python, so no Jupyter is needed; a value at a cell's end, which it would show, is shown."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            code = "".join(line for line in cell["source"] if line != "%matplotlib inline\n")
            body = ast.parse(code, f"{notebook.name}, cell {number}").body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), notebook.name, "exec"), namespace)
            if last is not None:
                shown = eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace)
                assert shown is None or repr(shown)
                ours = type(shown).__module__.startswith("attnx.")
                assert not ours or "<iframe" in shown._repr_html_()  # whatever of attnx a cell ends with is a page
    assert capsys.readouterr().out


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_carries_no_outputs(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
