"""The backward pass through the linearized model."""
