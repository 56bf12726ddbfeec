"""A model as people hold it: with its tokenizer, in a pipeline, or by the name under which it is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from torch import nn

from attnx.errors import ArgumentError
from attnx.inputs.families import reads_images
from attnx.inputs.pooling import is_sentence_transformer, transformer_of
from attnx.inputs.sound import reads_sound
from attnx.registry import quoted
from attnx.running.loading import load

P = ParamSpec("P")
R = TypeVar("R")


def takes_pipelines(*needed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The same function of (model, tokenizer, *needed); what brings its tokenizer along stands for the first two.

    A pipeline, a SentenceTransformer and the name of a saved model do, so `f(pipeline, text)` is `f(pipeline, None,
    text)`.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function)

        @wraps(function)
        def call(*given: Any, **named: Any) -> R:
            # Tokenizers and processors can be called; what is explained cannot.
            if given and brings_its_processor(given[0]) and len(given) > 1 and not _is_processor(given[1]):
                given = (given[0], None, *given[1:])
            try:
                bound: dict[str, Any] = parameters.bind_partial(*given, **named).arguments
            except TypeError:
                return function(*given, **named)  # says itself which argument it does not take
            missing = [name for name in needed if bound.get(name) is None]
            if missing:
                raise ArgumentError(
                    f"{function.__name__}: missing a required argument: {missing[0]!r}; it takes model, tokenizer, "
                    f"{', '.join(needed)}, or a pipeline for the first two"
                )
            return function(*given, **named)

        return call

    return decorated


def model_and_processor(model: Any, processor: Any) -> tuple[Any, Any]:
    """The two, out of whatever brings both along."""
    if processor is not None and not brings_its_processor(model):
        return model, processor
    given = given_model(model, processor)
    return given.model, given.processor


def brings_its_processor(model: Any) -> bool:
    """Whether it is a pipeline, a SentenceTransformer, or the name of a saved model."""
    return is_pipeline(model) or is_sentence_transformer(model) or isinstance(model, (str, PathLike))


def _is_processor(given: Any) -> bool:
    return given is None or callable(given)


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
        name = str(Path(model).absolute()) if Path(model).is_dir() else fspath(model)  # workers have other directories
        return GivenModel(loaded, own if processor is None else processor, name if processor is None else None)
    if is_sentence_transformer(model):
        return GivenModel(transformer_of(model), model.tokenizer if processor is None else processor)
    inner = getattr(model, "model", None)
    if is_pipeline(model) and inner is not None:
        own = _own_processor(model, inner)
        return GivenModel(inner, own if processor is None else processor)
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "a model is one of transformers with its tokenizer, a pipeline, or the directory or hub id of one; "
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


def is_pipeline(model: Any) -> bool:
    """Without transformers being loaded for those who have none of its pipelines."""
    return any(kind.__name__ == "Pipeline" and "transformers" in kind.__module__ for kind in type(model).__mro__)
