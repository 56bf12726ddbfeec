"""All references in the table of methods."""

from __future__ import annotations

from inspect import getdoc

from attnx.methods.listing import Listed
from attnx.references.registry import REFERENCES

_COSTS = {
    "gradient": "a run there and back",
    "input_x_gradient": "a run there and back",
    "integrated_gradients": "a run there and back for each step",
    "gradient_shap": "a run there and back for each sample",
    "blankout": "a run for each position",
    "occlusion": "a run for each window",
    "feature_ablation": "a run for each position",
    "value_path": "two runs and one back",
    "whole_path": "two runs and one back",
}


def listed_references() -> tuple[Listed, ...]:
    """The rows of `REFERENCES`; a plug-in's own is described by its first line, and does not say what it costs."""
    return tuple(
        Listed(
            name,
            "reference",
            "the answer",
            ("a head that answers",),
            _COSTS.get(name, "not said"),
            (getdoc(REFERENCES[name]) or "").split("\n")[0],
            long_inputs=True,
            heads=False,
        )
        for name in REFERENCES.names()
    )
