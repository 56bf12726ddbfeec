"""How far two lists of scores agree on what matters, and how sure a mean of such numbers is."""

from attnx.agreement.bootstrap import bootstrap_interval
from attnx.agreement.kendall import kendall
from attnx.agreement.measures import MEASURES
from attnx.agreement.spearman import dense_rank_correlation, rankable, spearman
from attnx.agreement.summary import Summary
from attnx.agreement.top_k import top_k

__all__ = [
    "MEASURES",
    "Summary",
    "bootstrap_interval",
    "dense_rank_correlation",
    "kendall",
    "rankable",
    "spearman",
    "top_k",
]
