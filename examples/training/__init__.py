"""Training of the small models that ship."""
