"""The road through all rooms: prepare, run, ask every method, hand out explanations."""
