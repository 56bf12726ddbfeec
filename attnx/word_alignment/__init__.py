"""Words of the target and the source words that they are aligned to."""
