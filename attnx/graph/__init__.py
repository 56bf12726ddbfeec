"""The noun in the middle: positions at each level, and edges that say how much of a node below is in the node above."""
