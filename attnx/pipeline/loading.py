"""A model as people hold it: with its tokenizer, in a pipeline, or by the name under which it is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from importlib.util import find_spec
from inspect import signature
from os import PathLike, fspath
from pathlib import Path
from time import sleep
from typing import Any, ParamSpec, TypeVar

from torch import nn

from attnx.adapters import (
    accepts_audio,
    accepts_image_and_text,
    accepts_images,
    has_head,
    is_sentence_transformer,
    unwrap_sentence_transformer,
)
from attnx.demo_models import SHIPPED, embedded_name, shipped_directory
from attnx.errors import ArgumentError, AttnxError, InputError, first_line
from attnx.registry import quoted

WHAT_WOULD_DO = (
    "a directory that save_pretrained wrote (config.json, model.safetensors, tokenizer), a .gguf file, or an installed "
    "package that has one of them in it"
)
_DEEP = ("*", "*/*", "*/*/*")
"""How far below a package its model is looked for."""


@dataclass(frozen=True)
class Saved:
    """What `from_pretrained` is given: a directory or a hub id, and what else it must know."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    on_hub: bool = False
    """Nothing here has that name, so it can only be the hub's."""


def saved_model(name: str) -> Saved:
    """The saved model of that name; what looks like a path and is none is an error."""
    path = Path(name).expanduser()
    if path.is_dir():
        return Saved(str(path))
    if path.is_file():
        return _of_file(path)
    if name.startswith((".", "/", "~")) or path.suffix in (".gguf", ".safetensors"):
        raise InputError(f"cannot load {name!r}: there is no such directory or file")
    return _in_package(name) or Saved(name, on_hub=True)


def _of_file(path: Path) -> Saved:
    if path.suffix == ".gguf":
        return Saved(str(path.parent), {"gguf_file": path.name})
    if (path.parent / "config.json").is_file():
        return Saved(str(path.parent))
    raise InputError(f"cannot load {str(path)!r}: no config.json stands beside that file; give {WHAT_WOULD_DO}")


def _in_package(name: str) -> Saved | None:
    """The one model in an installed package, by its name or its distribution's; nothing of the package is run."""
    module = name.replace("-", "_")
    module_spec = find_spec(module) if module.isidentifier() else None
    folders = (
        [Path(folder) for folder in (module_spec.submodule_search_locations or ())] if module_spec is not None else []
    )
    files = sorted(path for folder in folders for deep in _DEEP for path in folder.glob(deep))
    models = [_of_file(file) for file in files if file.suffix == ".gguf"]
    models += [Saved(str(file.parent)) for file in files if _is_weights(file)]
    if len(models) > 1:
        raise InputError(
            f"the package {quoted(module)} has {len(models)} models in it; give the path of one: {models[0].name}"
        )
    return models[0] if models else None


def _is_weights(file: Path) -> bool:
    return file.name == "model.safetensors" and (file.parent / "config.json").is_file()


_SECONDS_TO_ANSWER = 10.0


def load(name: str, needed: str = "") -> tuple[Any, Any]:
    """(model, tokenizer or image processor) in float32, with the head that the checkpoint was saved with.

    A folder of that name comes first, then a model that ships with attnx, then packages and the hub. `needed` is what
    would do instead, told where the hub cannot be reached.
    """
    if name in SHIPPED and not Path(name).exists():
        with shipped_directory(name) as directory:
            model, processor = _load(str(directory), needed)
        model.config.name_or_path = embedded_name(name)
        return model, processor
    return _load(name, needed)


def _load(name: str, needed: str) -> tuple[Any, Any]:
    import torch

    saved = saved_model(name)
    unreachable = _why_unreachable() if saved.on_hub else ""
    # Each of a model's files would be asked for several times, with pauses, before the hub is given up.
    cached = {"local_files_only": True} if unreachable else {}
    options: dict[str, Any] = {"trust_remote_code": False, **saved.options, **cached}
    hush()
    try:
        model_class, config = _class(saved, **cached)
        model, report = model_class.from_pretrained(
            saved.name, config=config, use_safetensors=not saved.options, output_loading_info=True, **options
        )
        processor = _auto(model).from_pretrained(saved.name, **options)
    except AttnxError:
        raise
    except Exception as error:  # whatever a broken checkpoint or an unreachable hub can lead to
        reason = f"it is not in the cache, and {unreachable}." if unreachable else first_line(error)
        if not saved.on_hub:
            raise InputError(f"cannot load {name!r}: {reason}") from error
        raise InputError(
            f"cannot load {name!r}; there is no such directory here, so it was looked for on the hub: {reason} "
            f"Without a hub, give --model {WHAT_WOULD_DO}{f', of {needed}' * bool(needed)}"
        ) from error
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise InputError(
            f"the checkpoint {name!r} lacks weights of {type(model).__name__} ({missing}, …): they would be random; "
            "give a checkpoint that was trained with this head"
        )
    return model.to(torch.float32).eval(), processor


def _auto(model: Any) -> Any:
    """What loads the processor: of sound that is written down it has a tokenizer as well."""
    import transformers

    entry = getattr(model, "main_input_name", "")
    if entry == "pixel_values":
        return transformers.AutoImageProcessor
    if accepts_image_and_text(model):
        return transformers.AutoProcessor
    if not accepts_audio(model):
        return transformers.AutoTokenizer
    writes = has_head(model, "ForCTC", "ForConditionalGeneration")
    return transformers.AutoProcessor if writes else transformers.AutoFeatureExtractor


def _why_unreachable() -> str:
    """Why the hub cannot be reached; "" where it can. One that is only slow is left to transformers, which waits."""
    import huggingface_hub

    address, utils = huggingface_hub.constants.ENDPOINT, huggingface_hub.utils
    for pause in (1.0, 0.0):  # a connection may fail once by chance
        try:
            session: Any = utils.get_session()  # type: ignore[attr-defined]
            session.head(address, timeout=_SECONDS_TO_ANSWER)  # by the user's proxies and certificates
        except Exception as error:  # of requests or of httpx, by the version of huggingface_hub
            if any("Timeout" in kind.__name__ for kind in type(error).__mro__):
                return ""
            reason = f"{address} cannot be reached ({first_line(error).rstrip('.')})"
            sleep(pause)
        else:
            return ""
    return reason


def _class(saved: Saved, **cached: bool) -> tuple[Any, Any]:
    """The model class that the checkpoint was saved with and its config; a .gguf file has neither, and is a decoder."""
    import transformers

    from attnx.demo_models import verb_number

    if saved.options:
        return transformers.AutoModelForCausalLM, None
    refuse_hub_kernels(transformers.PretrainedConfig.get_config_dict(saved.name, **cached)[0], saved.name)
    config = transformers.AutoConfig.from_pretrained(saved.name, trust_remote_code=False, **cached)
    name = str((config.architectures or [""])[0])
    for home in (transformers, verb_number):
        model_class = getattr(home, name, None)
        if isinstance(model_class, type) and issubclass(model_class, transformers.PreTrainedModel):
            return model_class, config
    raise InputError(
        f"the checkpoint names the architecture {name!r}, which this transformers does not have; "
        "load the model yourself and use attnx.explain in Python"
    )


def refuse_hub_kernels(config: Any, name: str) -> None:
    """Raise where a config names a repository for attention or experts: its code would be downloaded and run.

    transformers 4 does so even with `trust_remote_code=False`. Configs of parts (`text_config`) are searched as well.
    """
    members = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in members:
        if "implementation" in str(key):
            repository = next((text for text in _texts(value) if "/" in text), None)
            if repository is not None:
                raise InputError(
                    f"the config of {name!r} sets {key} to {quoted(repository)}, whose code would be downloaded from "
                    "the hub and run; remove it from config.json, or, if you trust that code, load the model yourself "
                    "and pass it to attnx.explain"
                )
        refuse_hub_kernels(value, name)


def _texts(value: Any) -> list[str]:
    """All texts in a value of JSON."""
    if isinstance(value, str):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for member in members for text in _texts(member)]


def hush() -> None:
    """Progress bars and remarks of the libraries would stand between the command and its answer."""
    import huggingface_hub
    import transformers

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    huggingface_hub.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]


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
        def call(*positional: Any, **named: Any) -> R:
            # Tokenizers and processors can be called; what is explained cannot.
            if (
                positional
                and brings_its_processor(positional[0])
                and len(positional) > 1
                and not _is_processor(positional[1])
            ):
                positional = (positional[0], None, *positional[1:])
            try:
                bound: dict[str, Any] = parameters.bind_partial(*positional, **named).arguments
            except TypeError:
                return function(*positional, **named)  # says itself which argument it does not take
            missing = [name for name in needed if bound.get(name) is None]
            if missing:
                raise ArgumentError(
                    f"{function.__name__}: missing a required argument: {missing[0]!r}; it takes model, tokenizer, "
                    f"{', '.join(needed)}, or a pipeline for the first two"
                )
            return function(*positional, **named)

        return call

    return decorated


def model_and_processor(model: Any, processor: Any) -> tuple[Any, Any]:
    """The two, out of whatever brings both along."""
    if processor is not None and not brings_its_processor(model):
        return model, processor
    pair = given_model(model, processor)
    return pair.model, pair.processor


def brings_its_processor(model: Any) -> bool:
    """Whether it is a pipeline, a SentenceTransformer, or the name of a saved model."""
    return is_pipeline(model) or is_sentence_transformer(model) or isinstance(model, (str, PathLike))


def _is_processor(value: Any) -> bool:
    return value is None or callable(value)


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model, what prepares its inputs, and the name by which another process can load both."""

    model: nn.Module
    processor: Any
    name: str | None = None


def given_model(model: Any, processor: Any = None) -> GivenModel:
    """The model of a pipeline, or the one that is saved under a name, or what was given with its processor."""
    if isinstance(model, (str, PathLike)):
        loaded, loaded_processor = load(fspath(model))
        name = str(Path(model).absolute()) if Path(model).is_dir() else fspath(model)  # workers have other directories
        return GivenModel(
            loaded, loaded_processor if processor is None else processor, name if processor is None else None
        )
    if is_sentence_transformer(model):
        return GivenModel(unwrap_sentence_transformer(model), model.tokenizer if processor is None else processor)
    inner = getattr(model, "model", None)
    if is_pipeline(model) and inner is not None:
        loaded_processor = _own_processor(model, inner)
        return GivenModel(inner, loaded_processor if processor is None else processor)
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "a model is one of transformers with its tokenizer, a pipeline, or the directory or hub id of one; "
            f"found {quoted(model)}"
        )
    if isinstance(processor, str) or (processor is None and not accepts_images(model)):  # pixels need no processor
        name = getattr(getattr(model, "config", None), "name_or_path", "") or "the model's directory"
        raise ArgumentError(
            f"{type(model).__name__} comes without its tokenizer; load it, "
            f"AutoTokenizer.from_pretrained({name!r}), and give it after the model, or give the directory alone"
        )
    return GivenModel(model, processor)


def _own_processor(pipeline: Any, model: nn.Module) -> Any:
    """What a pipeline prepares its inputs with; of sound that is written down it needs a tokenizer as well."""
    tokenizer, extractor = (getattr(pipeline, name, None) for name in ("tokenizer", "feature_extractor"))
    if accepts_audio(model) and extractor is not None:
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
