"""Which word is each written word from? Links of the model that rewrites dates, and a page to click through.

python examples/align_dates.py
"""

import attnx
from attnx.demo_models.dates import generate, load_demo

model, tokenizer = load_demo()
dates = generate(5, seed=1)
links = attnx.align(model, tokenizer, [one.text for one in dates], [one.written for one in dates], progress=False)
for sentence in range(len(links)):
    print("; ".join(f"{written} from {source}" for source, written in links.pairs(sentence)))
print(links.to_pharaoh(), end="")
links.to_html("alignment.html")
