"""What the model said, which part of it is explained, and its score."""
