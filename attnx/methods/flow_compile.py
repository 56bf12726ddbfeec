"""The machine code of the search: compiled once by numba, kept on disk, loaded again without numba.

To import numba and let it read its own cache takes most of a second, for a kernel of twenty kilobytes. The kernel needs
nothing of Python, so its object code is kept here instead and handed to LLVM directly, in some hundredths of a second.
A file is named after everything that the code depends on: the kernel's source, the compiler, the processor. Where no
directory can be written the code lives in memory, and each process compiles it anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from attnx._signals import in_every_child

SOURCES = [Path(__file__).with_name(name) for name in ("flow_kernel.py",)]

ARGUMENTS = "pppppiiiifpppppppppppppp"
"""The arguments of `kernel.solve`: p for a pointer, i for a 64-bit integer, f for a 64-bit float."""

_CTYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_double}
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_double, *(_CTYPES[kind] for kind in ARGUMENTS))
_LOCK = Lock()
_ENGINES: list[Any] = []


def compiled_search() -> Callable[..., float]:
    """`kernel.solve` as machine code. A call runs without the interpreter's lock, so threads run side by side."""
    with _LOCK:
        return _search()


def kept_code() -> Path | None:
    """The file that the next process will load the code from; None if it has to be compiled first."""
    name = _file_name()
    return next((path for path in (directory / name for directory in directories()) if _read(path) is not None), None)


@cache
def _search() -> Callable[..., float]:
    name = _file_name()
    for directory in directories():
        kept = _read(directory / name)
        if kept is not None:
            return _load(*kept)
    _say_that_it_compiles()
    symbol, code, fallback = _compile()
    if code is None:
        return fallback
    for directory in directories():
        if _write(directory / name, symbol, code):
            break
    return _load(symbol, code)


def _say_that_it_compiles() -> None:
    """Once on a machine, where somebody looks on: the first flow takes seconds, all others none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("attnx: flow is compiled for this processor, once; it takes some seconds", file=sys.stderr, flush=True)


def _file_name() -> str:
    return f"flow-{_fingerprint()}.o"


def _fingerprint() -> str:
    import llvmlite.binding as llvm

    facts = [llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    facts += [version("llvmlite"), version("numba"), ARGUMENTS]
    source = b"".join(path.read_bytes() for path in SOURCES)
    return hashlib.sha256(source + "\n".join(facts).encode()).hexdigest()[:32]


def _compile() -> tuple[str, bytes | None, Callable[..., float]]:
    """The kernel's symbol and object code; no code if it leans on more than itself, but always a function to call."""
    import llvmlite.binding as llvm
    from numba import cfunc

    from attnx.methods import flow_kernel as kernel

    # Inlined into its C wrapper, which then has no error left to report to Python.
    callback = cfunc(kernel.SIGNATURE, error_model="numpy", forceinline=True)(kernel.solve)
    module = llvm.parse_assembly(callback.inspect_llvm())
    needed = [function.name for function in (*module.functions, *module.global_variables) if function.is_declaration]
    if any(not name.startswith("llvm.") for name in needed):
        return callback.native_name, None, callback.ctypes
    return callback.native_name, _machine(llvm).emit_object(module), callback.ctypes


def _load(symbol: str, code: bytes) -> Callable[..., float]:
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)  # The code lives as long as its engine.
    return _PROTOTYPE(engine.get_function_address(symbol))


def _machine(llvm: Any) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )


def directories() -> Iterator[Path]:
    """The user's cache, then the package's own; a relative path would mean another place in every directory."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    for directory in ([Path(home) / "attnx"] if home else []) + [Path(__file__).parent / "__pycache__"]:
        if directory.is_absolute():
            yield directory


def _read(path: Path) -> tuple[str, bytes] | None:
    """The symbol and the code, or None if there is no such file, it is not whole, or others could have written it."""
    try:
        if not _is_own(path.parent.stat()):
            return None
        # What is looked at and what is read is one open file: a path may mean another one a moment later.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:  # noqa: PTH123
            if not _is_own(os.fstat(file.fileno())):
                return None
            digest, symbol, code = file.read().split(b"\n", 2)
    except (OSError, ValueError):
        return None
    if digest.decode(errors="replace") != _digest(symbol, code):
        return None
    return symbol.decode(), code


def _is_own(status: os.stat_result) -> bool:
    """Whether only this user, or root, can have written it."""
    if sys.platform == "win32":
        return True
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022


def _write(path: Path, symbol: str, code: bytes) -> bool:
    """Write in one step, so that no other process reads half a file; False where that is not possible."""
    content = b"\n".join([_digest(symbol.encode(), code).encode(), symbol.encode(), code])
    beside: Path | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(path.parent.stat()):
            return False
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            beside = Path(file.name)
            file.write(content)
        beside.replace(path)
        beside = None
    except OSError:
        return False
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)
    return True


def _digest(symbol: bytes, code: bytes) -> str:
    return hashlib.sha256(symbol + b"\n" + code).hexdigest()


def _after_fork() -> None:
    """A thread that held the lock does not exist in a child process."""
    global _LOCK
    _LOCK = Lock()


in_every_child(_after_fork)
