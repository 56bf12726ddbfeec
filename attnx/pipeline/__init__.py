"""From a call of `explain` to its explanations."""
