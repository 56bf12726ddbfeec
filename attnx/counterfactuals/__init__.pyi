from attnx.counterfactuals.side_by_side import SideBySide as SideBySide
from attnx.counterfactuals.side_by_side import blocks as blocks
from attnx.counterfactuals.side_by_side import plot as plot
from attnx.counterfactuals.side_by_side import rich as rich
from attnx.counterfactuals.side_by_side import rows as rows
from attnx.counterfactuals.side_by_side import side_by_side_section as side_by_side_section
from attnx.counterfactuals.side_by_side import text as text
