"""Generated text, explained token by token."""
