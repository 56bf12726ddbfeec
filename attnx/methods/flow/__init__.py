"""Attention flow: relevance of an input as the maximum flow that reaches it through all layers (§3.2).

`flow.py` asks, `bounds.py` has what is known without a search, `solver.py` shares the search between threads,
`kernel.py` is the search, `cut.py` and `saturation.py` say what a value means, `reference.py` is the definition.
"""
