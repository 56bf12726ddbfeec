"""One sentence, three methods, layer by layer: why the heat map of a single layer misleads.

python examples/three_methods.py "the key to the cabinets"
"""

import sys

import attnx

text = " ".join(sys.argv[1:]) or "the key to the cabinets"
model, tokenizer = attnx.load_demo()
e = attnx.explain(model, tokenizer, text)

print(f"{text!r}: {e.prediction}\n")
for method in e.methods:
    print(f"{method:<8}" + "".join(f"{word.text:>12}" for word in e.words))
    for layer in reversed(e.layers):
        scores = [word.score for word in e.by_word(method, layer)]
        print(f"layer {layer} " + "".join(f"{score:>12.3f}" for score in scores))
    print(f"tied at the last layer: {e.tied(method):.0%}\n")
