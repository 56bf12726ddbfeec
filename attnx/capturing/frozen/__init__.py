"""The frozen run: once forward as the model is, once back through a model whose choices are constants of this input.

`run.py` runs and checks, `mode.py` looks on at torch's functions, `rules.py` and `attention.py` say what is frozen of
them, `path.py` which way is followed, `sink_values.py` what any first token of a decoder gives, `uncovered.py` which
operation is to blame where the sum does not hold.
"""
