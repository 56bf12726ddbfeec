"""The graph of attention: edges with residual, sink and head choice, and what an edge weighs."""
