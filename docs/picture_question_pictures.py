"""Draw the pictures of docs/pictures-with-text.md: one question by every method, and what each word drew from.

python docs/picture_question_pictures.py
"""

from pathlib import Path

import attnx
from attnx.demo_models.picture_question import generate, load_demo
from attnx.views import image_panels

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    model, processor = load_demo()
    asked = generate(1, seed=6, enlarged=6)[0]
    given = {"image": asked.image, "text": f"<image> {asked.question} it is"}
    e = attnx.explain(
        model, processor, given, methods=("raw", "rollout", "flow"), references=("lrp", "attn_lrp", "blankout")
    )
    figure = image_panels(e, smooth=False)
    figure.suptitle(f"{asked.question} it is …", fontsize=10)
    figure.savefig(IMAGES / "picture-question.png", dpi=75, pil_kwargs={"optimize": True})
    prompt = {"image": asked.image, "text": f"<image> {asked.question}"}
    g = attnx.explain_generation(model, processor, prompt, methods="rollout", references="lrp")
    sheet = g.plot_overlays("lrp", smooth=False)
    sheet.savefig(IMAGES / "written-overlays.png", dpi=75, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
