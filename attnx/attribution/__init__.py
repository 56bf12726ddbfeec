"""Methods that run the model: gradients, ablations, layer-wise relevance propagation."""
