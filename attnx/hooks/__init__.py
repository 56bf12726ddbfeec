"""One forward pass, observed: the attention is captured and the model is left untouched."""
