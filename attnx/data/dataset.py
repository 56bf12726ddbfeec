"""`explain_dataset(model, tokenizer, data, output="run/")`: a whole data set, kept in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from attnx.arguments import checked
from attnx.data.columns import Column, Columns
from attnx.data.engine import Engine
from attnx.data.engines import engine_of
from attnx.data.explanations import ExplanationsQuestion
from attnx.data.place import Place
from attnx.data.road import Travel
from attnx.data.run import Run
from attnx.data.source import source_of
from attnx.errors import ChoiceError, InputError, whole_number
from attnx.explaining.call import Choices
from attnx.results.recommendation import Recommendation
from attnx.running.given_model import given_model, takes_pipelines
from attnx.running.plan import LAST

if TYPE_CHECKING:
    from attnx.references.registry import AskedReferences


@takes_pipelines("data")
@checked
def explain_dataset(
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    *,
    column: Column = None,
    output: str | PathLike[str] = "",
    methods: Sequence[str] | str | Recommendation | None = None,
    references: AskedReferences | None = None,
    layer: int | str | None = None,
    gold: str | None = None,
    id_column: str | None = None,
    shard_rows: int | None = None,
    engine: str | Engine | None = None,
    workers: int | None = None,
    num_gpus: float = 0,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Explain every row of `data`, and keep the answers as Parquet files in the folder `output`.

    `data` is a list, a generator, a table of pandas or of the datasets library, or the path of a file or of a folder of
    images. `column` has the texts (`text` or the like), two of them make pairs; `gold` the right labels (`label` or the
    like), `id_column` the names of rows. `model` may be a pipeline, a directory or a hub id, without a tokenizer.
    `layer` is the last unless you say which; "all" keeps every one. Further `options` are those of `explain`.

    The same call resumes a run that was stopped or killed; other data (also more rows), another model or other settings
    in the same folder are an error. A row that cannot be explained says why in its column `error`, and the run goes on.
    Rows for which memory was short are left out, and the run is not complete: the same call runs them again.

    Rows are run in shards of `shard_rows`: no more are in memory, and no more are lost if the run is killed. By default
    a shard is about half a minute of work, by the time of the first rows, and at most 1,024 rows. `engine="ray"`, or
    the address of a cluster, has `workers` do them, each with `num_gpus`.

    >>> model, tokenizer = attnx.load_demo()
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = ["the keys to the cabinet", "the boy near the girls"]
    >>> run = explain_dataset(model, tokenizer, texts, output=folder, methods="rollout", progress=False)
    >>> len(run), run.complete
    (2, True)
    """
    given = given_model(model, tokenizer)
    if not output:
        raise InputError("say where the run is kept: output='run/', a folder or an address that fsspec knows")
    asked = _options(methods, references, layer, options)
    Choices.of(given.model, **asked)  # a wrong setting is told before any row is read
    Travel(
        ExplanationsQuestion(asked),
        given,
        source_of(data, Columns(column, gold, id_column)),
        Place.of(output),
        engine_of(engine, workers, num_gpus),
        None if shard_rows is None else whole_number("shard_rows", shard_rows),
        bool(progress),
    ).run()
    return Run.load(output)


def _options(methods: Any, references: Any, layer: Any, options: Any) -> dict[str, Any]:
    """Those of `explain` that were chosen; what would make rows of unlike size is refused."""
    if options.get("maps") or options.get("head") == "each":
        raise ChoiceError(
            "a row of a data set keeps one score a position: leave maps and head='each' out, or use explain"
        )
    for name in ("position", "target"):
        if isinstance(options.get(name), list):
            raise ChoiceError(f"{name} is one for all rows of a data set, found a list")
    asked = {"methods": methods, "references": references, **options}
    asked["layer"] = None if layer == "all" else LAST if layer is None else layer
    return {name: value for name, value in asked.items() if value is not None}
