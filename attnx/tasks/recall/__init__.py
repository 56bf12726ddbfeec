"""Recall: "k3 v7 k1 v2 k3" is followed by v7, and the one place where that stands is known. A decoder trained on it.

model, tokenizer = load_demo()                     the trained model that ships with attnx
generate(100, seed=1)                              texts, each with its answer and the word it stands at
train(Recipe()), save(model, directory)            another model like it
"""
