"""Which retrieved document mattered? The decoder that ships with attnx recalls a value, and its document is found.

    python examples/which_document.py

With a model of yours, `documents` are the texts that you put into the prompt, in their order.
"""

import attnx
from attnx.demo_models.recall import load_demo

model, tokenizer = load_demo()
documents = {"note 1": "k3 v7 k1 v2", "note 2": "k8 v5 k4 v11", "note 3": "k12 v3 k7 v9"}
prompt = " ".join([*documents.values(), "k4"])

e = attnx.explain(model, tokenizer, prompt, spans=documents, references={"lrp": {}, "blankout": {"unit": "span"}})
for name in ("lrp", "blankout"):
    print(name, {one.text: round(one.score, 2) for one in e.by_span(name)})
best = max(e.by_span("blankout"), key=lambda one: one.score)
print(f"the model says {e.prediction}, from {best.text}")
