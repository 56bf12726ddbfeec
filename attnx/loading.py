"""A saved model and its tokenizer or image processor, by directory or hub id, for the command line.

Weights are read from safetensors only and no code of the checkpoint is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.errors import InputError


def load(name: str) -> tuple[Any, Any]:
    """(model, tokenizer or image processor) in float32, with the head that the checkpoint was saved with."""
    import torch
    import transformers

    from attnx.tasks import verb_number  # makes its config known to the Auto classes

    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise InputError(f"cannot load {name!r}: there is no such directory")
    hush()
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        saved_as = (config.architectures or [""])[0]
        homes = [home for home in (transformers, verb_number) if hasattr(home, saved_as)]
        architecture = getattr(homes[0], saved_as) if homes else transformers.AutoModel
        model = architecture.from_pretrained(name, use_safetensors=True).to(torch.float32).eval()
        vision = getattr(model, "main_input_name", "") == "pixel_values"
        auto = transformers.AutoImageProcessor if vision else transformers.AutoTokenizer
        return model, auto.from_pretrained(name)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        where = "" if Path(name).exists() else "; there is no such directory here, so it was looked for on the hub"
        raise InputError(f"cannot load {name!r}{where}: {reason}") from error


def hush() -> None:
    """Progress bars and remarks of the libraries would stand between the command and its answer."""
    import huggingface_hub
    import transformers

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    huggingface_hub.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
