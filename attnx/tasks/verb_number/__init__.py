"""The verb-number task (§4): from the words before a verb, is the verb singular or plural?

model, tokenizer = load_demo()                     the trained model that ships with attnx
train(files, out), evaluate(directory, files)      training and evaluation on files in Linzen's format
generate(100, attractors=1)                        sentences without any data
"""
