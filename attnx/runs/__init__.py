"""Data sets: resumable runs in Parquet shards."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
