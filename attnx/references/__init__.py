"""Importance measured on the model itself, to hold attention against: one score for each position (§4).

Each reference is a function of a model, its tokenizer or image processor, and cases: prepared inputs with the class or
token to explain. Many go in at once and run in batches of bounded size; what comes out depends on how they were
batched only by rounding.
"""
