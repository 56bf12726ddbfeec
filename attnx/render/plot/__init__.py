"""An explanation in matplotlib: bars, heat maps, and the layered graph.

Each function draws into `ax`, or into a new figure, and returns the axes. None calls `show`.
"""
