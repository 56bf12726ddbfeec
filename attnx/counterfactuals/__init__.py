"""Changed inputs, explained beside the original."""
