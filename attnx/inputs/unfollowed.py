"""Models of pictures that have no map from patch to patch: each is refused by one row, with what works instead.

A row knows them by what they are made of. Who names a stack (`within=`) is believed to know what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from attnx.errors import CaptureError
from attnx.inputs.towers import is_two_sided

_INSTEAD = (
    "explain a model of the same task that attends over all patches (ViT, DeiT, BEiT, DINOv2), or use Captum on it"
)


class Unfollowed(NamedTuple):
    """A row: which models, why they cannot be followed, and what works instead."""

    fits: Callable[[nn.Module, Any], bool]
    why: str
    instead: str


def check_followed(model: nn.Module) -> None:
    """Refuse what a row fits."""
    for row in _ROWS:
        if row.fits(model, model.config):
            raise CaptureError(f"{type(model).__name__} {row.why}; {row.instead}")


def _has_qformer(model: nn.Module, config: Any) -> bool:
    return hasattr(config, "qformer_config") and hasattr(config, "vision_config")


def _detects(model: nn.Module, config: Any) -> bool:
    """Encoder and decoder over the cells of a convolution's map, and queries that become objects."""
    reads_pixels = getattr(model, "main_input_name", "") == "pixel_values"
    return reads_pixels and hasattr(config, "num_queries") and hasattr(config, "decoder_layers")


_ROWS = (
    Unfollowed(
        _has_qformer,
        "reads a picture by a Q-Former: what stands in the text are learned queries, and no patches",
        "explain its tower, attnx.explain(model.vision_model, processor, picture), or a decoder that reads patches "
        "(LLaVA, PaliGemma, Qwen2-VL, SmolVLM)",
    ),
    Unfollowed(
        lambda model, config: is_two_sided(model) and not getattr(model, "can_generate", lambda: False)(),
        "holds pictures against texts, and answers to both together",
        "use attnx.explain_similarity(model, processor, picture, text), or explain one tower: "
        "attnx.explain(model.vision_model, processor, picture)",
    ),
    Unfollowed(
        lambda model, config: hasattr(config, "sr_ratios"),
        "attends to a smaller copy of the picture at every stage (SegFormer's layout), so its maps are not of patches "
        "over patches",
        _INSTEAD,
    ),
    Unfollowed(
        _detects,
        "finds objects by learned queries over the cells of a convolution's map (DETR's layout), which are no patches",
        _INSTEAD,
    ),
    Unfollowed(
        lambda model, config: hasattr(config, "num_latents") and hasattr(config, "d_latents"),
        "reads its input into learned latents (Perceiver), which attend to one another: they are no positions of it",
        "explain a model of the same task that attends over all positions (a ViT, a BERT), or use Captum on it",
    ),
)
