"""Data sets: resumable runs in Parquet shards."""
