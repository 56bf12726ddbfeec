"""A text that is the name of a file: it is explained as it stands, with a note that says how to have what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from shlex import quote

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
SOUNDS = (".wav", ".wave")
SAVED = (".safetensors",)
WRITTEN = (".txt", ".md", ".text", ".json", ".html", ".py")


def file_notes(texts: Iterable[str], command: str) -> Iterator[str]:
    """A note for each text of `attnx command` that is an existing file's name, or ends like one."""
    for text in texts:
        suffix = PurePath(text).suffix.lower()
        if _exists(text):
            instead = _instead(text, suffix, command)
            yield f"{quote(text)} is the name of a file, and the name is what is read; {instead}"
        elif suffix in (*TABLES, *PICTURES, *SOUNDS, *SAVED, *WRITTEN) and not text.split()[1:]:
            yield f"{quote(text)} ends like a file's name, but there is no such file: it is read as a text"


def _exists(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with characters that none has
        return False


def _instead(name: str, suffix: str, command: str) -> str:
    if suffix in PICTURES:
        return f"the picture: attnx explain --image {quote(name)} --model DIRECTORY"
    if suffix in SOUNDS:
        return f"the sound: attnx explain --sound {quote(name)} --model DIRECTORY"
    if suffix in SAVED:
        return f"a saved explanation: attnx.Explanation.load({name!r}) in Python"
    if command in ("compare", "atlas"):
        return f"the texts in it: attnx {command} --data {quote(name)}"
    if suffix in TABLES and command == "explain":
        return f"the texts in it: attnx compare --data {quote(name)}, or give one of them"
    return f"the text in it: attnx {command} - < {quote(name)}"
