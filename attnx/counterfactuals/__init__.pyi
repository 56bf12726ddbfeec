from attnx.counterfactuals.side_by_side import SideBySide as SideBySide
from attnx.counterfactuals.view import blocks as blocks
from attnx.counterfactuals.view import plot as plot
from attnx.counterfactuals.view import rich as rich
from attnx.counterfactuals.view import rows as rows
from attnx.counterfactuals.view import side_by_side_section as side_by_side_section
from attnx.counterfactuals.view import text as text
