"""Where a saved model is, without a network: a directory, a file of one, a .gguf file, or an installed package."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from attnx.errors import InputError
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
    found = find_spec(module) if module.isidentifier() else None
    folders = [Path(one) for one in (found.submodule_search_locations or ())] if found is not None else []
    files = sorted(one for folder in folders for deep in _DEEP for one in folder.glob(deep))
    models = [_of_file(one) for one in files if one.suffix == ".gguf"]
    models += [Saved(str(one.parent)) for one in files if _is_weights(one)]
    if len(models) > 1:
        raise InputError(
            f"the package {quoted(module)} has {len(models)} models in it; give the path of one: {models[0].name}"
        )
    return models[0] if models else None


def _is_weights(file: Path) -> bool:
    return file.name == "model.safetensors" and (file.parent / "config.json").is_file()
