"""Adapters for every model without one of its own: text encoders, text decoders, images."""

from attnx.adapters.adapter import Adapter
from attnx.adapters.explained import image_position, last_position, mask_or_cls_position
from attnx.adapters.image import prepare_image
from attnx.adapters.registry import register_adapter
from attnx.adapters.text import prepare_text

register_adapter(Adapter(name="encoder", prepare=prepare_text, explained=mask_or_cls_position))
register_adapter(
    Adapter(
        name="decoder",
        prepare=prepare_text,
        explained=last_position,
        causal=True,
        blank=("unk_token", "eos_token", "pad_token"),
    )
)
register_adapter(Adapter(name="vision", prepare=prepare_image, explained=image_position))
