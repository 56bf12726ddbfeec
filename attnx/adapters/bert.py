"""BERT: an encoder; a decoder when its config says so."""

from attnx.adapters.adapter import Adapter
from attnx.adapters.explained import mask_or_cls_position
from attnx.adapters.registry import register_adapter
from attnx.adapters.text import prepare_text

register_adapter(
    Adapter(
        name="bert",
        prepare=prepare_text,
        explained=mask_or_cls_position,
        causal=lambda config: bool(config.is_decoder),
        blank=("mask_token", "unk_token"),
    )
)
