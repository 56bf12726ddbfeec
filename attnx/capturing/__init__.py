"""Run a model once and watch its attention, without reloading or changing it."""
