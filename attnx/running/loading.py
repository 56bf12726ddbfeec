"""A saved model and what prepares its inputs, by directory, file, embedded name, package or hub id.

Weights are read from safetensors and gguf only, and no code of the checkpoint is run.
"""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

from attnx.errors import AttnxError, InputError, first_line
from attnx.inputs.model_facts import has_head
from attnx.inputs.picture_and_text import reads_both
from attnx.inputs.sound import reads_sound
from attnx.registry import quoted
from attnx.running.saved import WHAT_WOULD_DO, Saved, saved_model
from attnx.tasks.shipped import SHIPPED, embedded_name, shipped_directory

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
    given: dict[str, Any] = {"trust_remote_code": False, **saved.options, **cached}
    hush()
    try:
        model_class, config = _class(saved, **cached)
        model, report = model_class.from_pretrained(
            saved.name, config=config, use_safetensors=not saved.options, output_loading_info=True, **given
        )
        processor = _auto(model).from_pretrained(saved.name, **given)
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
    if reads_both(model):
        return transformers.AutoProcessor
    if not reads_sound(model):
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

    from attnx.tasks.verb_number import model as verb_number

    if saved.options:
        return transformers.AutoModelForCausalLM, None
    refuse_hub_kernels(transformers.PretrainedConfig.get_config_dict(saved.name, **cached)[0], saved.name)
    config = transformers.AutoConfig.from_pretrained(saved.name, trust_remote_code=False, **cached)
    name = str((config.architectures or [""])[0])
    for home in (transformers, verb_number):
        found = getattr(home, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found, config
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
