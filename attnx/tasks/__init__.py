"""Tasks with data, a model and training of their own. Importing one imports transformers; `import attnx` does not."""
