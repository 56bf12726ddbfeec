from attnx.benchmarks.benchmark import SUITES as SUITES
from attnx.benchmarks.result import BenchmarkTable as BenchmarkTable
from attnx.benchmarks.result import benchmark_plain as benchmark_plain
from attnx.benchmarks.result import benchmark_section as benchmark_section
