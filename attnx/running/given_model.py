"""A model as people hold it: with its tokenizer, in a pipeline, or by the name under which it is saved."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from torch import nn

from attnx.errors import ArgumentError
from attnx.inputs.families import reads_images
from attnx.inputs.sound import reads_sound
from attnx.registry import quoted
from attnx.running.loading import load


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model, what prepares its inputs, and the name by which another process can load both."""

    model: nn.Module
    processor: Any
    name: str | None = None


def given_model(model: Any, processor: Any = None) -> GivenModel:
    """The model of a pipeline, or the one that is saved under a name, or what was given with its processor."""
    if isinstance(model, (str, PathLike)):
        loaded, own = load(fspath(model))
        return GivenModel(loaded, own if processor is None else processor, fspath(model) if processor is None else None)
    inner = getattr(model, "model", None)
    if is_pipeline(model) and inner is not None:
        own = _own_processor(model, inner)
        return GivenModel(inner, own if processor is None else processor)
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"a model is one of transformers with its tokenizer, a pipeline, or the directory or hub id of one; "
            f"found {quoted(model)}"
        )
    if isinstance(processor, str) or (processor is None and not reads_images(model)):  # pixels need no processor
        name = getattr(getattr(model, "config", None), "name_or_path", "") or "the model's directory"
        raise ArgumentError(
            f"{type(model).__name__} comes without its tokenizer; load it, "
            f"AutoTokenizer.from_pretrained({name!r}), and give it after the model, or give the directory alone"
        )
    return GivenModel(model, processor)


def _own_processor(pipeline: Any, model: nn.Module) -> Any:
    """What a pipeline prepares its inputs with; of sound that is written down it needs a tokenizer as well."""
    tokenizer, extractor = (getattr(pipeline, name, None) for name in ("tokenizer", "feature_extractor"))
    if reads_sound(model) and extractor is not None:
        return getattr(pipeline, "processor", None) or (Both(extractor, tokenizer) if tokenizer else extractor)
    return tokenizer or getattr(pipeline, "image_processor", None)


@dataclass(frozen=True, eq=False)
class Both:
    """A feature extractor and a tokenizer, where no processor holds both."""

    feature_extractor: Any
    tokenizer: Any


def with_its_text(model: Any, processor: Any, text: Any) -> tuple[Any, Any, Any]:
    """The arguments in their places: who gives a pipeline or a name need not give a tokenizer before the text."""
    if text is None and (is_pipeline(model) or isinstance(model, (str, PathLike))):
        return model, None, processor
    return model, processor, text


def is_pipeline(model: Any) -> bool:
    """Without transformers being loaded for those who have none of its pipelines."""
    return any(kind.__name__ == "Pipeline" and "transformers" in kind.__module__ for kind in type(model).__mro__)
