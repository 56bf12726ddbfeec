"""Commands that evaluate methods: `attnx compare`, `faithfulness`, `recommend`, `head-atlas` and `benchmark`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import attnx
from attnx.cli.options import (
    INPUT,
    Against,
    Measure,
    Methods,
    Normalize,
    References,
    RunDirOptions,
    Seed,
    TableOutputs,
    TargetName,
    TextInputs,
    asked_model,
    check_asked,
    check_file,
    file_notes,
    kept,
    option,
    say,
)
from attnx.errors import InputError

Random = Annotated[
    int | None, option("--random N", "Random orders per text (default: until the interval is narrow).", min=1)
]


def compare_command(
    *,
    inputs: TextInputs,
    method: Methods = None,
    against: Against = None,
    measure: Measure = "spearman",
    target: TargetName = None,
    seed: Seed = 0,
    run: RunDirOptions,
    outputs: TableOutputs,
) -> None:
    """Measure the rank correlation of attention methods with attribution methods on many texts."""
    options = {"target": target, "measure": measure, "seed": seed}
    outputs.show(_evaluate("compare", inputs, run, method, against, **options))


def faithfulness_command(
    *,
    inputs: TextInputs,
    method: Methods = None,
    reference: References = None,
    target: TargetName = None,
    random: Random = None,
    seed: Seed = 0,
    run: RunDirOptions,
    outputs: TableOutputs,
) -> None:
    """Remove the words that each method ranks highest, and compare the effect with removing random words."""
    options = {"target": target, "random": random, "seed": seed}
    outputs.show(_evaluate("faithfulness", inputs, run, method, reference, **options))


def recommend_command(
    *,
    inputs: TextInputs,
    method: Methods = None,
    reference: References = None,
    target: TargetName = None,
    random: Random = None,
    seed: Seed = 0,
    run: RunDirOptions,
    outputs: TableOutputs,
) -> None:
    """Rank all methods on your texts by how much removing their top words changes the prediction."""
    options = {"target": target, "random": random, "seed": seed}
    table = _evaluate("recommend", inputs, run, method, reference, **options)
    say(f"{name} was left out: {reason}" for name, reason in table.left_out.items())
    outputs.show(table)


def head_atlas_command(
    *,
    inputs: TextInputs,
    method: Annotated[str, option("--method NAME", "raw, rollout or flow.")] = "rollout",
    against: Against = None,
    measure: Measure = "spearman",
    target: TargetName = None,
    run: RunDirOptions,
    outputs: TableOutputs,
) -> None:
    """Show which heads contribute most to the explained position, as a grid of layers and heads."""
    options = {"target": target, "measure": measure}
    outputs.show(_evaluate("head-atlas", inputs, run, [method], against, **options))


def _evaluate(
    name: str,
    inputs: TextInputs,
    run: RunDirOptions,
    methods: list[str] | None,
    references: list[str] | None,
    **options: Any,
) -> Any:
    """The table of the function of attnx with the command's name."""
    texts, more = run.texts(inputs)
    say(file_notes(inputs.texts or (), name))
    check_asked(methods, references, model=inputs.model, measure=options.get("measure"))
    options |= {"truncate": inputs.truncate, **more}
    options |= {"methods": methods} if methods else {}
    key = "against" if name in ("compare", "head-atlas") else "references"
    options |= {key: references} if references else {}
    with asked_model(inputs.model) as (model, tokenizer), kept(run):
        return getattr(attnx, name.replace("-", "_"))(model, tokenizer, texts, **options)


def benchmark_command(
    *,
    suite: Annotated[
        list[str] | None, option("--suite NAME", "recall, subject, patch, cues, names, …; repeat for several.")
    ] = None,
    model: Annotated[
        str | None,
        option("--model -m NAME", "A directory or hub id (default: models that ship with attnx).", INPUT),
    ] = None,
    data: Annotated[
        Path | None,
        option("--data FILE", "Cues (columns prefix, good, bad, cue), or the texts of the suite faithfulness.", INPUT),
    ] = None,
    method: Methods = None,
    reference: References = None,
    rows: Annotated[int | None, option("--rows N", "Inputs per suite, at most.")] = None,
    normalize: Normalize = "auto",
    seed: Seed = 0,
    run: RunDirOptions,
    outputs: TableOutputs,
) -> None:
    """Measure how often each method finds the word, patch or tone that is known to decide the prediction."""
    check_file(data, "--data")
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1, found {rows}")
    normalization = None if normalize == "none" else normalize
    check_asked(method, reference, model=model, suites=suite, normalize=normalization)
    import torch

    from attnx.pipeline import hush, load

    hush()
    if model is None:
        torch.set_num_threads(1)  # the models that ship are tiny: a second thread costs them more than it saves
    options: dict[str, Any] = {"suites": suite, "methods": method, "references": reference}
    options = {name: value or None for name, value in options.items()}
    options |= {"data": data, "rows": rows, "normalize": normalization, "seed": seed, **run.options}
    with kept(run):
        table = attnx.benchmark(*((None, None) if model is None else load(model)), **options)
    outputs.show(table)
