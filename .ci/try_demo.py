"""The demo of what was installed answers a text in a browser: `python .ci/try_demo.py COMMAND…`, from the repository.

COMMAND starts it, away from the repository; it is ended afterwards. Without a browser that is said, and no error.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser import browser_path
from tests.demo.visitor import visit


def main() -> None:
    if browser_path() is None or importlib.util.find_spec("playwright") is None:
        print("no browser here: the demo of the wheel was not tried")
        return
    served = subprocess.Popen(sys.argv[1:], cwd="/", stdout=subprocess.PIPE, text=True)
    try:
        seen, asked = visit(address(served), "the keys to the cabinet")
    finally:
        served.terminate()
        served.wait()
    assert "plural" in seen, seen
    assert all(one.startswith(("http://127.0.0.1", "data:", "blob:", "about:")) for one in asked), asked
    print("the demo of the wheel answers in a browser, and asks nothing of another host")


def address(served: subprocess.Popen[str]) -> str:
    """Where it listens, as it says itself."""
    said = ""
    for line in served.stdout or ():
        said += line
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            return found[0]
    raise SystemExit(f"the demo ended before it listened: {said}")


if __name__ == "__main__":
    main()
