from attnx.benchmarks.benchmark import SUITES as SUITES
from attnx.benchmarks.result import BenchmarkTable as BenchmarkTable
from attnx.benchmarks.view import plot_truth as plot_truth
from attnx.benchmarks.view import truth_blocks as truth_blocks
from attnx.benchmarks.view import truth_plain as truth_plain
from attnx.benchmarks.view import truth_rows as truth_rows
from attnx.benchmarks.view import truth_section as truth_section
