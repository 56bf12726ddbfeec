"""What ships: `python .ci/check_wheel.py WHEEL` ends with 1 if the wheel lacks a part of the package or has too much.

Every file of attnx/ must be in it. The parts that a forgotten setting of the build would lose first
are named besides, so that a list which is empty by mistake is an error as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]

PARTS = {
    "the text model": "attnx/demo_models/weights/verb_number/model.safetensors",
    "its tokenizer": "attnx/demo_models/weights/verb_number/tokenizer.json",
    "the image model": "attnx/demo_models/weights/planted_patch/model.safetensors",
    "the decoder": "attnx/demo_models/weights/recall/model.safetensors",
    "the decoder's tokenizer": "attnx/demo_models/weights/recall/tokenizer.json",
    "the encoder–decoder": "attnx/demo_models/weights/dates/model.safetensors",
    "the encoder–decoder's tokenizer": "attnx/demo_models/weights/dates/tokenizer.json",
    "templates": "attnx/*.jinja",
    "scripts": "attnx/*.js",
    "styles": "attnx/*.css",
    "the mark of a typed package": "attnx/py.typed",
    "the license": "*.dist-info/licenses/LICENSE",
    "the command attnx": "*.dist-info/entry_points.txt",
}


def main() -> None:
    with ZipFile(sys.argv[1]) as wheel:
        names = wheel.namelist()
    wrong = list(mistakes(names, package_files()))
    for line in wrong:
        print(f"{Path(sys.argv[1]).name}: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


def mistakes(names: list[str], package: list[str]) -> Iterator[str]:
    """A line for each part or file that is missing, and for each that does not belong there."""
    for part, pattern in PARTS.items():
        if not any(fnmatch(name, pattern) for name in names):
            yield f"{part} ({pattern}) is missing"
    yield from (f"{name} is missing" for name in package if name not in names)
    for name in names:
        if not name.startswith("attnx/") and ".dist-info/" not in name:
            yield f"{name} is not of the package"
        elif "__pycache__" in name or fnmatch(Path(name).name, "test_*.py"):
            yield f"{name} should not ship"


def package_files() -> list[str]:
    """The files of the package, without what Python and flow keep beside it."""
    files = (path.relative_to(ROOT) for path in (ROOT / "attnx").rglob("*") if path.is_file())
    return [path.as_posix() for path in files if "__pycache__" not in path.parts]


if __name__ == "__main__":
    main()
