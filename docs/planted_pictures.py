"""Draw the pictures of docs/images.md: one planted patch seen by every method, and rollout over the layers.

python docs/planted_pictures.py
"""

from pathlib import Path

from matplotlib.figure import Figure

import attnx
from attnx.demo_models import generate
from attnx.demo_models.planted_patch import load_demo
from attnx.views import image_panels
from attnx.views.image import layer_strip

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    model, processor = load_demo()
    planted = generate(1, seed=1, enlarged=6)[0]
    e = attnx.explain(model, processor, planted.image, references=("gradient", "blankout"))
    save(image_panels(e, smooth=False), "planted-panels.png")
    save(layer_strip(e, "rollout"), "planted-layers.png")


def save(figure: Figure, name: str) -> None:
    figure.savefig(IMAGES / name, dpi=75, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
