"""A saved model and its tokenizer or image processor, by directory or hub id, for the command line.

Weights are read from safetensors only and no code of the checkpoint is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.errors import AttnxError, InputError


def load(name: str) -> tuple[Any, Any]:
    """(model, tokenizer or image processor) in float32, with the head that the checkpoint was saved with."""
    import torch
    import transformers

    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise InputError(f"cannot load {name!r}: there is no such directory")
    hush()
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        model, report = _architecture(config).from_pretrained(
            name, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        vision = getattr(model, "main_input_name", "") == "pixel_values"
        auto = transformers.AutoImageProcessor if vision else transformers.AutoTokenizer
        processor = auto.from_pretrained(name, trust_remote_code=False)
    except AttnxError:
        raise
    except Exception as error:  # whatever a broken checkpoint or an unreachable hub can lead to
        reason = str(error).strip().split("\n")[0]
        where = "" if Path(name).exists() else "; there is no such directory here, so it was looked for on the hub"
        raise InputError(f"cannot load {name!r}{where}: {reason}") from error
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise InputError(
            f"the checkpoint {name!r} lacks weights of {type(model).__name__} ({missing}, …): they would be random; "
            "give a checkpoint that was trained with this head"
        )
    return model.to(torch.float32).eval(), processor


def _architecture(config: Any) -> Any:
    """The model class that the checkpoint was saved with."""
    import transformers

    from attnx.tasks.verb_number import model as verb_number

    name = str((config.architectures or [""])[0])
    for home in (transformers, verb_number):
        found = getattr(home, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    raise InputError(
        f"the checkpoint names the architecture {name!r}, which this transformers does not have; "
        "load the model yourself and use attnx.explain in Python"
    )


def hush() -> None:
    """Progress bars and remarks of the libraries would stand between the command and its answer."""
    import huggingface_hub
    import transformers

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    huggingface_hub.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
