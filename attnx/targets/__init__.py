"""What the model predicted, and the score of a target."""
