"""The command line: `attnx explain "a text"`. One file a command; `main` is the entry."""
