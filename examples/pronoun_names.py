"""Figure 4 a thousand times: does a masked pronoun draw from the person whose pronoun the model predicts?

Writes names.csv, sentences about a woman and a man in either order, and probes a masked language model with them. It
is open who is meant, but each pronoun fits only one of the two.

python examples/pronoun_names.py bert-large-uncased 1000
"""

import csv
import itertools
import sys
from pathlib import Path

from transformers import AutoModelForMaskedLM, AutoTokenizer

from attnx.pronouns import read, run

WOMEN = ["Mary", "Sara", "Anna", "Susan", "Laura", "Emily", "Julia", "Helen", "Alice", "Karen"]
MEN = ["John", "Peter", "David", "Paul", "Mark", "James", "Robert", "Thomas", "Daniel", "George"]
PRONOUNS = {"POSS": ("her", "his"), "NOM": ("she", "he")}
TEMPLATES = [
    ("POSS", "{} convinced {} of [MASK] love"),
    ("POSS", "{} talked to {} about [MASK] book"),
    ("POSS", "{} met {} at [MASK] office"),
    ("POSS", "{} gave {} the key to [MASK] house"),
    ("POSS", "{} asked {} about [MASK] plans for the summer"),
    ("NOM", "{} told {} that [MASK] had won the prize"),
    ("NOM", "{} called {} because [MASK] was late"),
    ("NOM", "{} thanked {} when [MASK] left the room"),
    ("NOM", "{} saw {} before [MASK] went to work"),
    ("NOM", "{} wrote to {} that [MASK] would come on Sunday"),
]

name = sys.argv[1] if len(sys.argv) > 1 else "bert-large-uncased"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 40

couples = [(WOMEN[i], MEN[(i + shift) % len(MEN)]) for shift in range(len(MEN)) for i in range(len(WOMEN))]
everything = itertools.product(couples, (False, True), TEMPLATES)
with Path("names.csv").open("w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["sentence", "candidates", "implies"])
    for (woman, man), turned, (case, template) in itertools.islice(everything, count):
        first, second = (man, woman) if turned else (woman, man)
        she, he = PRONOUNS[case]
        writer.writerow([template.format(first, second), f"{first}|{second}", f"{she}={woman}|{he}={man}"])

model = AutoModelForMaskedLM.from_pretrained(name).float().eval()
tokenizer = AutoTokenizer.from_pretrained(name)
report = run(model, tokenizer, read("names.csv"), source="names.csv", run_dir="names", progress=True)
print(report)
report.plot().savefig("names.png", dpi=120)
