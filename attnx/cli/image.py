"""What `attnx explain` does otherwise with an image: where it comes from, and a picture as output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.errors import InputError

PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""What an overlay can be saved as."""


def check_arguments(
    text: str | None, pair: str | None, image: Path | None, model: str | None, output: Path | None
) -> None:
    """A text or an image, with what belongs to it."""
    if (text is None) == (image is None):
        raise InputError("give a text, or an image with --image, and not both")
    if image is not None and pair is not None:
        raise InputError("--pair is a second text; an image has none")
    if image is not None and model is None:
        raise InputError("--image needs a vision model: --model directory-or-hub-id")
    suffixes = (".safetensors", *PICTURES) if image is not None else (".safetensors",)
    if output is not None and output.suffix.lower() not in suffixes:
        raise InputError(f"--output takes a file that ends in {' or '.join(suffixes)}, found {output.name!r}")


def save_output(explanation: Any, output: Path, names: list[str]) -> None:
    """The explanation, or for a picture's name its overlay; several methods and references stand side by side."""
    if output.suffix.lower() not in PICTURES:
        explanation.save(output)
    elif len(names) > 1:
        from attnx.render.image_panels import image_panels

        image_panels(explanation, names).savefig(output, dpi=150)
    else:
        explanation.overlay(names[0]).save(output)
