"""Relevance from a graph: pure functions, a row of `METHODS` each."""
