"""The planted patch: pictures whose class one known patch tells, and a tiny ViT that was trained on them.

model, processor = load_demo()                    the trained model that ships with attnx
generate(100, seed=1)                             pictures, each with its planted patch
find(model, processor, pictures)                  how often each method's best patch is the planted one
"""

from attnx.tasks.planted_patch.checkpoint import demo_directory, load_demo, save
from attnx.tasks.planted_patch.finding import Finding, find
from attnx.tasks.planted_patch.generator import LABELS, Planted, generate
from attnx.tasks.planted_patch.training import Recipe, accuracy, train

__all__ = [
    "LABELS",
    "Finding",
    "Planted",
    "Recipe",
    "accuracy",
    "demo_directory",
    "find",
    "generate",
    "load_demo",
    "save",
    "train",
]
