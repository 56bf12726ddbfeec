"""Draw the pictures of the page on plots.

python docs/plots_picture.py
"""

from pathlib import Path

from matplotlib.figure import Figure

import attnx

IMAGES = Path(__file__).parent / "images"
TEXT = "the key to the cabinets"

model, tokenizer = attnx.load_demo()
e = attnx.explain(model, tokenizer, TEXT, references="blankout", all_queries=True)

figure = Figure(figsize=(9.6, 2.9), layout="constrained")
left, right = figure.subplots(1, 2)
e.plot("rollout", ax=left)
e.plot("blankout", ax=right)
figure.savefig(IMAGES / "plot-row.png", dpi=110)

figure = Figure(figsize=(9.6, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
e.plot_layers(ax=left)
e.plot_graph(ax=right)
figure.savefig(IMAGES / "plot-layers-graph.png", dpi=110)
