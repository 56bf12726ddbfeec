"""A question about a picture: "which colour is the square at the top left ?", and the one patch that shows the answer.

model, processor = load_demo()                     the trained image–text decoder that ships with attnx
generate(100, seed=1)                              pictures with questions, each with its answer and its patches
train(Recipe()), save(model, directory)            another model like it
"""
