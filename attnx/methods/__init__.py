"""Methods on the graph: raw attention, rollout, flow and their normalization."""
