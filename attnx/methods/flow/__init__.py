"""Attention flow: relevance of an input as the maximum flow that reaches it through all layers (§3.2).

`flow.py` asks, `bounds.py` has what is known without a search, `solver.py` shares the search between threads,
`kernel.py` is the search, `cut.py` and `saturation.py` say what a value means, `reference.py` is the definition.
"""

from attnx.methods.flow.cut import CutEdge, MinimumCut, minimum_cut
from attnx.methods.flow.flow import by_receptive_field, flow
from attnx.methods.flow.saturation import column_bound, rounded, saturated_share, tied_share

__all__ = [
    "CutEdge",
    "MinimumCut",
    "by_receptive_field",
    "column_bound",
    "flow",
    "minimum_cut",
    "rounded",
    "saturated_share",
    "tied_share",
]
