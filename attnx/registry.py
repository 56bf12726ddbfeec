"""Named things that can be added to from outside: adapters, methods.

A built-in is named with the place where it stands, and loaded when it is first looked up: to know the names, nothing
else must be imported. A third party adds its own with `registry.add(name, thing)` or, without a line of code at run
time, through an entry point of the registry's group in its package's metadata:

    [project.entry-points."attnx.methods"]
    my_method = "my_package:my_method"
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from typing import Any, Generic, TypeVar

from attnx._signals import in_every_child
from attnx.errors import ChoiceError, RegistryError

T = TypeVar("T")


FILLERS: dict[str, str] = {}
"""Noun → the module that adds the built-ins of that registry, for those that are filled from above; loaded when a name
is first looked up. `attnx` itself says so, which is imported before anything of it."""

_registries: weakref.WeakSet[Registry[Any]] = weakref.WeakSet()


@dataclass(frozen=True)
class _Place:
    """Where a thing stands that is not loaded yet: "package.module:NAME"."""

    place: str

    def load(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


class Registry(Generic[T]):
    """An ordered name → thing mapping that rejects duplicates and loads plug-ins when a name is first looked up.

    Where things are of one type that knows its own name, `row` is that type or its place, "package.module:Type", and
    nothing else is taken. `built_in` gives the places of the first things by name.
    """

    def __init__(self, noun: str, row: type[T] | str | None = None, built_in: Mapping[str, str] | None = None) -> None:
        self._noun, self._row = noun, row
        self._things: dict[str, T | _Place] = {name: _Place(place) for name, place in (built_in or {}).items()}
        self._plugins_loaded = self._loading = False
        self._lock = RLock()
        _registries.add(self)

    def add(self, name: str, thing: T) -> T:
        """Register `thing` under `name`; a name that is taken is an error, never an override."""
        self._check(name, thing)
        with self._lock:
            if name in self._things:
                raise RegistryError(
                    f"{self._noun} {name!r} is registered already; choose another name, or remove() the old one first"
                )
            self._things[name] = thing
        return thing

    def remove(self, name: str) -> T:
        """Take a thing out again, to replace it on purpose."""
        thing = self[name]
        with self._lock:
            del self._things[name]
        return thing

    def names(self) -> tuple[str, ...]:
        self._load_plugins()
        return tuple(self._things)

    def __getitem__(self, name: str) -> T:
        self.check(name)
        thing = self._things[name]
        return self._loaded(name, thing) if isinstance(thing, _Place) else thing

    def check(self, name: object) -> None:
        """Raise if there is nothing of that name. Nothing of attnx is loaded for it."""
        if name not in self:
            raise ChoiceError(unknown(self._noun, name, self._things))

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return isinstance(name, str) and name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _loaded(self, name: str, place: _Place) -> T:
        """A built-in. Its module is imported without the lock: another thread may be importing it."""
        thing: T = place.load()
        self._check(name, thing)
        with self._lock:
            if self._things.get(name) == place:
                self._things[name] = thing
        return thing

    def _check(self, name: str, thing: object) -> None:
        row = _Place(self._row).load() if isinstance(self._row, str) else self._row
        if row is None:
            return
        if not isinstance(thing, row):
            kind = row.__name__
            raise RegistryError(
                f"{self._noun} {name!r} must be a row, {kind}({name!r}, …), found {quoted(thing)}; wrap a function as "
                f"{kind}({name!r}, function), from {row.__module__}"
            )
        own = getattr(thing, "name", name)
        if own != name:
            raise RegistryError(f"{self._noun} {name!r} calls itself {own!r}; add it by its own name")

    def _load_plugins(self) -> None:
        if not self._plugins_loaded and self._noun in FILLERS:
            import_module(FILLERS[self._noun])  # without the lock: another thread may be importing it
        with self._lock:
            if self._plugins_loaded or self._loading:  # a plug-in may be made of a built-in that it looks up
                return
            self._loading = True
            try:
                found: dict[str, T] = {}
                for entry in entry_points(group=f"attnx.{self._noun.replace(' ', '_')}s"):
                    found[entry.name] = self._load(entry, (*self._things, *found))
            finally:
                self._loading = False
            self._things.update(found)  # all or, where one is bad, none: and the next lookup says so again
            self._plugins_loaded = True

    def _load(self, entry: EntryPoint, taken: Iterable[str]) -> T:
        try:
            thing: T = entry.load()
            self._check(entry.name, thing)
            if entry.name in taken:
                raise RegistryError(f"{self._noun} {entry.name!r} is registered already")
        except Exception as error:
            raise RegistryError(
                f"plug-in {entry.value!r} for {self._noun} {entry.name!r} failed to load: {error}; "
                "mend or uninstall the package that brings it"
            ) from error
        return thing


def unknown(noun: str, name: object, known: Iterable[object]) -> str:
    """The sentence for a name that does not exist: what was asked, what there is, and the nearest."""
    import difflib  # takes longer to load than all that is needed when nothing is wrong

    names = [str(one) for one in known]
    near = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{noun} {quoted(name)} is not known; there are: {', '.join(names)}{hint}"


def quoted(value: object) -> str:
    """A value as a message quotes it: at most a line of it, and whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a number of more digits than Python writes, or an object that cannot say what it is
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}…{text[-15:]}"


def _after_fork() -> None:
    """A thread that held a lock does not exist in a child process."""
    for registry in _registries:
        registry._lock, registry._loading = RLock(), False


in_every_child(_after_fork)
