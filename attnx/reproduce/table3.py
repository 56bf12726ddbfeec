"""Table 3: Spearman's correlation of raw attention, rollout and flow with input gradients, DistilBERT on SST-2."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from torch import nn

from attnx.errors import InputError
from attnx.inputs.adapter import Prepared
from attnx.methods.registry import PAPER_METHODS
from attnx.reproduce.correlations import Array, Correlating, Sample, protocol_gradients, tabulated
from attnx.reproduce.protocols import PROTOCOLS_TABLE_3
from attnx.reproduce.sentences import Reviews
from attnx.results.table import Protocol, Published, Table

MODEL = "distilbert-base-uncased-finetuned-sst-2-english"
NEEDED = "any classifier of two classes, negative and positive, such as a DistilBERT tuned on SST-2"

PUBLISHED_TABLE: Published = {
    "raw": ((0.12, 0.21), None, (0.09, 0.21), None, (0.08, 0.20), (0.09, 0.21)),
    "rollout": ((0.11, 0.19), None, (0.12, 0.21), None, (0.13, 0.21), (0.13, 0.20)),
    "flow": ((0.11, 0.19), None, (0.11, 0.21), None, (0.12, 0.22), (0.14, 0.21)),
}


def table3(
    model: nn.Module,
    tokenizer: Any,
    sentences: Reviews,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS_TABLE_3.values()),
    seed: int = 0,
    progress: bool = False,
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> Table:
    """Measure the table on the sentences under each protocol. The seed is the bootstrap's.

    The authors' loop took 101 sentences where the paper says 100; give as many as you want to take. `output` and
    `options` are as in `table1`.
    """
    asking = Correlating(
        "Table 3",
        "input gradients",
        PUBLISHED_TABLE,
        gradients,
        tuple(protocols),
        PAPER_METHODS,
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, output, options, progress=progress)
    return table


def gradients(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence; one of them embeds twice."""
    twice = any(protocol.embedded_twice for protocol in protocols)
    embed = _embedding_layer(model) if twice else None
    return protocol_gradients(model, tokenizer, prepared, protocols, embed_fully=embed, progress=progress)


def _embedding_layer(model: nn.Module) -> nn.Module:
    """Word and position embedding with their LayerNorm."""
    layer = getattr(getattr(model, "base_model", model), "embeddings", None)
    if not isinstance(layer, nn.Module):
        raise InputError(
            f"{type(model).__name__} has no embedding layer that could be applied twice, as the authors' code did; "
            "use --protocol corrected"
        )
    return layer
