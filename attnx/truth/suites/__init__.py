"""The suites of attnx, a file each."""
