"""How far two lists of scores agree on what matters, and how sure a mean of such numbers is."""

from attnx.agreement.bootstrap import bootstrap_interval
from attnx.agreement.spearman import dense_rank_correlation, rankable, spearman
from attnx.agreement.summary import Summary

__all__ = ["Summary", "bootstrap_interval", "dense_rank_correlation", "rankable", "spearman"]
