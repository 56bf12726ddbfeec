"""The page of a run: its summary, and rows to search, filter and sort, in one file that needs no network."""
