"""What things cost: each file is a script that prints ratios measured in one run, `python -m tests.benchmarks.flow`.

As in the tests, no instruction may kill a run: where half precision does, oneDNN is limited before torch is imported.
"""

import sys

from tests import half_precision

half_precision.settle()
if not half_precision.runs():
    print(half_precision.report(), file=sys.stderr)
