"""DistilBERT: an encoder without segments; token types that its tokenizer may return are left out of the input."""

from attnx.adapters.adapter import Adapter
from attnx.adapters.explained import mask_or_cls_position
from attnx.adapters.registry import register_adapter
from attnx.adapters.text import prepare_text

register_adapter(
    Adapter(
        name="distilbert",
        prepare=prepare_text,
        explained=mask_or_cls_position,
        blank=("mask_token", "unk_token"),
    )
)
