"""Arrow, where it is installed: it comes with `attnx[data]`, and is loaded only by those who have a data set."""

from __future__ import annotations

from typing import Any

from attnx.errors import AttnxError


def arrow() -> Any:
    """The module `pyarrow`."""
    try:
        import pyarrow
    except ImportError as error:
        raise AttnxError("data sets are kept as Parquet, which needs pyarrow: pip install 'attnx[data]'") from error
    return pyarrow


def parquet() -> Any:
    """The module `pyarrow.parquet`."""
    arrow()
    from pyarrow import parquet as module

    return module


def parquet_file(file: Any) -> Any:
    """A Parquet file to read from, which is then read with `use_threads=False`.

    Arrow's threads do not end well with a process that loaded torch before them: it is aborted, though all was done.
    """
    return parquet().ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
