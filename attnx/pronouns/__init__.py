"""The pronoun probe on masked language models."""
