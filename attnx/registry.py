"""Registries of named things that others can add to: methods, edge weights, adapters, suites.

A built-in is registered by the module that defines it, and imported when it is first looked up. Other packages add
their own by `registry.add(name, thing)`, or by an entry point of the registry's group in their metadata:

    [project.entry-points."attnx.methods"]
    my_method = "my_package:my_method"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import get_ident
from typing import Any, Generic, TypeVar

from attnx.errors import ChoiceError, RegistryError

T = TypeVar("T")


class Registry(Generic[T]):
    """An ordered mapping of name → thing that rejects duplicates, and loads plug-ins when a name is first looked up.

    Args:
        noun: What the things are called in messages; its plural names the group of entry points.
        row: The type that things must have, or where it is: "package.module:Type".
        built_in: Name → where the thing is.
        filler: A module that adds further things when it is imported.
    """

    def __init__(
        self,
        noun: str,
        row: type[T] | str | None = None,
        built_in: Mapping[str, str] | None = None,
        *,
        filler: str | None = None,
    ) -> None:
        self._noun, self._row, self._filler = noun, row, filler
        self._built_in = dict(built_in or {})
        self._things: dict[str, T] = {}
        self._plugins: dict[str, T] | None = None
        self._loading: set[int] = set()
        """Threads that load plug-ins: a plug-in may look up built-ins while it is imported."""

    def add(self, name: str, thing: T) -> T:
        """Register `thing` under `name`; a name that is taken is an error, never an override."""
        self._check(name, thing)
        taken = name in self._built_in or name in self._things or name in (self._plugins or ())
        if taken or self._things.setdefault(name, thing) is not thing:
            raise RegistryError(
                f"{self._noun} {name!r} is registered already; choose another name, or remove() the old one first"
            )
        return thing

    def remove(self, name: str) -> T:
        """Take a thing out, to replace it on purpose."""
        thing = self[name]
        for things in (self._built_in, self._things, self._plugins or {}):
            things.pop(name, None)
        return thing

    def names(self) -> tuple[str, ...]:
        """All names: built-ins, what was added, plug-ins."""
        self._load_plugins()
        return tuple(dict.fromkeys((*self._built_in, *self._things, *(self._plugins or ()))))

    def check(self, name: object) -> None:
        """Raise if there is nothing of that name; the thing itself is not loaded."""
        if name not in self:
            raise ChoiceError(unknown(self._noun, name, self))

    def __getitem__(self, name: str) -> T:
        self.check(name)
        if name not in self._things and name in self._built_in:
            thing: T = _load(self._built_in[name])
            self._check(name, thing)
            self._things[name] = thing
        return self._things[name] if name in self._things else (self._plugins or {})[name]

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return isinstance(name, str) and any(
            name in things for things in (self._built_in, self._things, self._plugins or ())
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _check(self, name: str, thing: object) -> None:
        row = _load(self._row) if isinstance(self._row, str) else self._row
        if row is None:
            return
        if not isinstance(thing, row):
            kind = row.__name__
            raise RegistryError(
                f"{self._noun} {name!r} must be of type {kind}, found {quoted(thing)}; wrap a function as "
                f"{kind}({name!r}, function), from {row.__module__}"
            )
        name_of_row = getattr(thing, "name", name)
        if name_of_row != name:
            raise RegistryError(f"{self._noun} {name!r} has the name {name_of_row!r}; add it under that name")

    def _load_plugins(self) -> None:
        """All or, where one is bad, none: then the next lookup raises again."""
        if self._plugins is not None or get_ident() in self._loading:
            return
        self._loading.add(get_ident())
        try:
            if self._filler is not None:
                import_module(self._filler)
            plugins: dict[str, T] = {}
            for entry in entry_points(group=f"attnx.{self._noun.replace(' ', '_')}s"):
                plugins[entry.name] = self._load_plugin(entry, {*self._built_in, *self._things, *plugins})
            self._plugins = plugins
        finally:
            self._loading.discard(get_ident())

    def _load_plugin(self, entry: EntryPoint, taken: set[str]) -> T:
        try:
            thing: T = entry.load()
            self._check(entry.name, thing)
            if entry.name in taken:
                raise RegistryError(f"{self._noun} {entry.name!r} is registered already")
        except Exception as error:
            raise RegistryError(
                f"plug-in {entry.value!r} for {self._noun} {entry.name!r} failed to load: {error}; "
                "fix or uninstall the package that provides it"
            ) from error
        return thing


def _load(location: str) -> Any:
    """The object at "package.module:name"."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def unknown(noun: str, name: object, known: Iterable[object]) -> str:
    """The message for a name that does not exist: the names that do, and the nearest one."""
    import difflib  # takes longer to import than everything that is needed when nothing is wrong

    names = [str(item) for item in known]
    near = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{noun} {quoted(name)} is not known; there are: {', '.join(names)}{hint}"


def quoted(value: object) -> str:
    """A value as a message quotes it: at most a line."""
    try:
        text = repr(value)
    except Exception:  # a number with more digits than Python prints, or an object whose repr fails
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}…{text[-15:]}"
