"""No number may change unnoticed: what attnx computed once, in a file, and a test that computes it again.

cases.py          every group of cases: families, arrays, explanations, studies, the paper, files, mistakes
present.py        the names inside attnx that cases need; where a module moves, this file alone follows
numbers.npz       what the cases gave; `python -m tests.regression.write` writes it anew
saved/            files of attnx 0.1.0, which must load; `python -m tests.regression.write_saved` wrote them
"""
