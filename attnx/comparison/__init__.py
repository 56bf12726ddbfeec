"""Whether what attention shows can be trusted on this model: agreement with references, and faithfulness."""

from attnx.comparison.compare import compare
from attnx.comparison.comparison import Comparison
from attnx.comparison.faithfulness import faithfulness
from attnx.comparison.faithfulness_table import Faithfulness

__all__ = ["Comparison", "Faithfulness", "compare", "faithfulness"]
