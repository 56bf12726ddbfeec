"""Importance measured on the model itself, to hold attention against: one score for each position (§4).

Each reference is a function of a model, its tokenizer or image processor, and cases: prepared inputs with the class or
token to explain. Many go in at once and run in batches of bounded size; what comes out depends on how they were
batched only by rounding.
"""

from attnx.references.blankout import blankout
from attnx.references.case import Case, Scored, cases
from attnx.references.gradient import gradient, input_x_gradient
from attnx.references.gradient_shap import gradient_shap
from attnx.references.integrated_gradients import integrated_gradients
from attnx.references.occlusion import feature_ablation, occlusion
from attnx.references.registry import REFERENCES

__all__ = [
    "REFERENCES",
    "Case",
    "Scored",
    "blankout",
    "cases",
    "feature_ablation",
    "gradient",
    "gradient_shap",
    "input_x_gradient",
    "integrated_gradients",
    "occlusion",
]
