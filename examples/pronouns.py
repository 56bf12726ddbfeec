"""Whom does a masked pronoun draw from? Figure 4 of the paper, for its own two sentences.

python examples/pronouns.py bert-large-uncased
"""

import sys

from transformers import AutoModelForMaskedLM, AutoTokenizer

from attnx.pronouns.probe import probe

name = sys.argv[1] if len(sys.argv) > 1 else "bert-large-uncased"
model = AutoModelForMaskedLM.from_pretrained(name).float().eval()
tokenizer = AutoTokenizer.from_pretrained(name)

for text, candidates, his, her in (
    ("The author talked to Sara about [MASK] book", ("author", "Sara"), "author", "Sara"),
    ("Mary convinced John of [MASK] love", ("Mary", "John"), "John", "Mary"),
):
    implies = {"his": his, "her": her}
    print(probe(model, tokenizer, text, candidates=candidates, pronouns=("his", "her"), implies=implies), end="\n\n")
