"""The planted tone: two seconds of hum and noise whose class one short tone tells, and a tiny AST trained on them.

model, extractor = load_demo()                    the trained model that ships with attnx
generate(100, seed=1)                             sounds, each with its planted tone
train(Recipe()), save(model, directory)           another model like it
"""
