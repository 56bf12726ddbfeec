"""Where numbers come from: versions, model, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, overload

import numpy as np
from torch import nn

from attnx.errors import AttnxError, FileFormatError
from attnx.registry import Registry
from attnx.results import storage
from attnx.results import storage as fit
from attnx.results import storage as schema

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class View:
    """How one kind is looked at. Each function takes the result, and then what the method of its name takes."""

    blocks: Callable[[Any], Iterable[Any]]
    """Tables with what is said around them, of which Markdown and a page are made."""
    text: Callable[[Any], str]
    markdown: Callable[[Any], str]
    rows: Callable[[Any], list[dict[str, Any]]]
    """A row for each number, for pandas and for CSV."""
    csv: Callable[[Any], str]
    plot: Callable[..., Any]
    rich: Callable[[Any], Any]
    html: Callable[..., Any]
    notebook: Callable[[Any], str]
    more: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What this kind alone can do, such as an overlay over its picture."""


VIEWS: Registry[Callable[[], View]] = Registry("view", filler="attnx.view_registry")
"""Kind of result → what loads its view, when it is first looked at."""


@dataclass(frozen=True, eq=False)
class Result:
    """The protocol of every kind."""

    kind: ClassVar[str]
    """The key of its files and of its view, and its name in messages."""
    indent: ClassVar[int | None] = None
    """Spaces in its JSON; None where that is mostly numbers."""
    rules: ClassVar[fit.Rules] = {}
    """What fits together in it; types are checked by its annotations."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave, or what a file kept, where arrays are arrays already; it is checked throughout."""
        try:
            made = schema.read(cls, cls._fields_of(data) if isinstance(data, Mapping) else data)
            fit.check(made)
        except FileFormatError:
            raise
        except Exception as error:  # whatever a file that was tampered with can lead to
            what = " ".join(str(error).split()) if isinstance(error, AttnxError) else schema.one_line(error)
            raise FileFormatError(what) from error
        return made

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """What is told, by the names of the fields: where the two differ, a kind says how."""
        return {name: value for name, value in data.items() if name not in ("kind", "format")}

    def _saved(self) -> dict[str, Any]:
        """What files keep, arrays as they are: all that counts for equality."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.compare}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; undefined numbers are None."""
        plain: dict[str, Any] = storage.plain(self._saved())
        return plain

    def to_json(self) -> str:
        """Everything, all digits, undefined as null; `from_json` reads it."""
        return storage.to_json(self, self.indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return storage.from_json(cls, text)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a .safetensors file that `load` reads: the numbers, and a JSON header with all the rest."""
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote. Nothing in the file is executed."""
        return storage.load(cls, path)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, item.name), getattr(other, item.name)) for item in fields(self) if item.compare)

    def __hash__(self) -> int:
        values = (getattr(self, item.name) for item in fields(self) if item.compare)
        return hash((self.kind, *(value for value in values if isinstance(value, (str, int)))))

    @property
    def _view(self) -> View:
        return VIEWS[self.kind]()

    def to_text(self) -> str:
        """For a terminal without colours, for files and pipes."""
        return self._view.text(self)

    def to_markdown(self) -> str:
        """Tables with a heading and a foot."""
        return self._view.markdown(self)

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with a row for each number; what is undefined is NaN."""
        try:
            import pandas
        except ImportError as error:
            raise AttnxError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._view.rows(self))

    def to_csv(self) -> str:
        """The lines of `to_frame`; what is undefined is an empty cell."""
        return self._view.csv(self)

    def plot(self, *args: Any, **options: Any) -> Any:
        """With matplotlib."""
        return self._view.plot(self, *args, **options)

    @overload
    def to_html(self, path: None = None, *, title: str | None = None, content_only: bool = False) -> str: ...

    @overload
    def to_html(self, path: str | PathLike[str], *, title: str | None = None, content_only: bool = False) -> None: ...

    def to_html(
        self, path: str | PathLike[str] | None = None, *, title: str | None = None, content_only: bool = False
    ) -> str | None:
        """A page to look at, in one file that needs no network; written to `path`, or returned without one.

        With `content_only` a text is shown without the colours of its punctuation, whose share the page still says.
        """
        page: str | None = self._view.html(self, path, title=title, content_only=content_only)
        return page

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self._view.notebook(self)

    def __rich__(self) -> RenderableType:
        """What `rich.print` shows."""
        shown: RenderableType = self._view.rich(self)
        return shown

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True, eq=False)
class TableResult(Result):
    """A result that is tables throughout, and has no text of its own."""

    def text(self) -> str:
        """Aligned columns for the terminal, as `to_text`."""
        return self.to_text()

    def markdown(self) -> str:
        """Tables in Markdown, as `to_markdown`."""
        return self.to_markdown()


def _same(item: Any, other: Any) -> bool:
    """Equal by value; what is undefined in both is the same, and files do not tell a list from a tuple."""
    if isinstance(item, np.ndarray) or isinstance(other, np.ndarray):
        return np.shape(item) == np.shape(other) and bool(np.array_equal(item, other, equal_nan=True))
    if isinstance(item, Mapping) and isinstance(other, Mapping):
        return item.keys() == other.keys() and all(_same(value, other[name]) for name, value in item.items())
    if isinstance(item, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(item) == len(other) and all(map(_same, item, other))
    if is_dataclass(item) and type(item) is type(other):
        return all(
            _same(getattr(item, field.name), getattr(other, field.name)) for field in fields(item) if field.compare
        )
    return bool(item == other) or (item != item and other != other)


NOT_KEPT = "not kept"
"""The name under which a record says what an option was that no file can hold, such as a function."""


def provenance(model: nn.Module, adapter: str, **settings: Any) -> dict[str, Any]:
    """What another person needs to get the same numbers again; plain values, ready for JSON."""
    config = model.config
    dtype = next(model.parameters()).dtype
    return {
        "versions": {name: _version(name) for name in ("attnx", "torch", "transformers")},
        "model": getattr(config, "name_or_path", "") or type(model).__name__,
        "class": type(model).__name__,
        "adapter": adapter,
        "attention": getattr(config, "_attn_implementation", None),
        "dtype": str(dtype).removeprefix("torch."),
        "settings": settings,
    }


@cache
def _version(package: str) -> str:
    """Read once: finding a package's metadata takes longer than explaining a short text."""
    return version(package)
