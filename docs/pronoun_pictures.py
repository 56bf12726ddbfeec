"""Draw the pictures of docs/pronouns.md again.

    python docs/pronoun_pictures.py MODEL names.csv

MODEL is a masked language model's directory or hub id; examples/pronoun_names.py writes names.csv.
"""

import sys
import tempfile
from pathlib import Path

from attnx.paper import figure4, save_picture
from attnx.pipeline import load
from attnx.pronouns import read, run, written_out

IMAGES = Path(__file__).parent / "images"

model, tokenizer = load(sys.argv[1])
names = read(sys.argv[2])
masked = run(model, tokenizer, names, source="names.csv", progress=True)
written = run(model, tokenizer, written_out(names), source="names.csv, pronouns written out", progress=True)
pictures = {"figure4": figure4(model, tokenizer), "pronouns-masked": masked.plot(), "pronouns-written": written.plot()}
with tempfile.TemporaryDirectory() as folder:
    for name, figure in pictures.items():
        png, _ = save_picture(figure, Path(folder) / name)
        (IMAGES / png.name).write_bytes(png.read_bytes())
