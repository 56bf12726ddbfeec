"""Does a method find the patch that the class is in? A small ViT, pictures with one telling patch, and the count.

python examples/planted_patch.py
"""

import attnx
from attnx.benchmarks.suites import find_patch as find
from attnx.demo_models import generate
from attnx.demo_models.planted_patch import load_demo
from attnx.views import image_panels

model, processor = load_demo()
pictures = generate(24, seed=1)
references = ("gradient", "blankout")

findings = find(model, processor, pictures, references=references)
findings["rollout, 0.9"] = find(model, processor, pictures, methods=["rollout"], discard_ratio=0.9)["rollout"]
print(f"{'':<14}best patch is the planted one   mean rank of 64")
for name, one in findings.items():
    print(f"{name:<14}{one.found:>4.0%}, 95 %: {one.low:>4.0%} to {one.high:>4.0%}{one.rank:>22.1f}")
print(f"{'chance':<14}{one.chance:>4.0%}; {one.striking:.0%} for who sees only what stands out\n")

picture = generate(1, seed=1, enlarged=6)[0]
e = attnx.explain(model, processor, picture.image, references=references)
image_panels(e, smooth=False).savefig("planted_patch.png", dpi=120)
print(f"planted: {picture.label} in {picture.token}; predicted: {e.prediction}; see planted_patch.png")
