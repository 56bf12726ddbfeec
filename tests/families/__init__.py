"""Every model type that transformers can build small: what attnx sees, held against eager attention.

`python -m tests.families` runs all of them, each in a child process, and prints the table of `docs/families.md`.
"""
