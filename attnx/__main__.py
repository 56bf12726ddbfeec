"""`python -m attnx`, which is `attnx` where no script is on the path."""

from __future__ import annotations

from attnx.cli.main import main

if __name__ == "__main__":
    main()
