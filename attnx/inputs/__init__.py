"""What the caller gave, made ready for the model: tensors, and what each of their positions is."""
