"""Whole data sets: what users hold becomes rows, rows become shards, and engines run a pure function of each shard."""
