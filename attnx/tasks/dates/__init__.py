"""Dates: "the third of march 1998" is rewritten as "1998 03 03", and the one word that decides each field is known.

model, tokenizer = load_demo()                     the trained encoder–decoder that ships with attnx
generate(100, seed=1)                              texts, each with its date and the words it is read from
train(Recipe()), save(model, directory)            another model like it
"""
