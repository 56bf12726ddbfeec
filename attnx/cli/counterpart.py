"""What `attnx explain` sets beside an explanation: the text with words replaced, or another model on the same text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.cli.options import print_inert
from attnx.errors import InputError


@dataclass(frozen=True)
class Counterpart:
    """Words and what replaces them, or a model."""

    changes: tuple[tuple[str, str], ...] = ()
    model: str | None = None

    @classmethod
    def of(
        cls, replaced: list[str] | None, beside: str | None, part: Path | None, alone: Mapping[str, bool]
    ) -> Counterpart | None:
        """As it is asked for on the command line; None where it is not. What one `alone` can have is refused."""
        if not replaced and beside is None:
            return None
        if part is not None:
            raise InputError(
                "--replace and --beside are for texts: words stand side by side, an image has none, nor has a sound"
            )
        if replaced and beside is not None:
            raise InputError("--replace changes the text and --beside the model: give one of them")
        for option in (name for name, given in alone.items() if given):
            raise InputError(f"{option} is for one explanation; --replace and --beside show two: leave it out")
        return cls(tuple(_change(one) for one in replaced or ()), beside)

    def beside(self, model: Any, tokenizer: Any, explanation: Any, text: Any, options: dict[str, Any]) -> Any:
        """The explanation with its counterpart, word by word."""
        from attnx.explaining.edit import edit
        from attnx.explaining.explain import explain
        from attnx.results.side_by_side import side_by_side
        from attnx.running.loading import load

        if self.model is not None:
            other = explain(*load(self.model), text, **options)
            return side_by_side([explanation, other])
        words = {word.text for word in explanation.words}
        # A number is a word's place, unless it is a word of the text itself.
        changes = {int(word) if word.isdecimal() and word not in words else word: new for word, new in self.changes}
        chosen = {"truncate": options["truncate"]} | ({"target": options["target"]} if options["target"] else {})
        return edit(model, tokenizer, explanation, changes, **chosen)


def show_both(both: Any, as_json: bool, output: Path | None) -> None:
    """Saved where it was asked for, and printed."""
    from rich.console import Console

    if output is not None:
        both.save(output)
    if as_json:
        print_inert(both.to_json())
        return
    console = Console(highlight=False)
    if console.color_system is None or console.no_color:
        console.file.write(f"{both}\n")
    else:
        console.print(both)


def _change(asked: str) -> tuple[str, str]:
    word, sign, new = asked.partition("=")
    if not sign or not word:
        raise InputError(f'--replace takes a word and what replaces it, "wonderful=dull", found {asked!r}')
    return word, new
