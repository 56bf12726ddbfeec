"""GPT-2: a decoder. Its tokenizer has no mask and no padding; the unknown token doubles as end of text."""

from attnx.adapters.adapter import Adapter
from attnx.adapters.explained import last_position
from attnx.adapters.registry import register_adapter
from attnx.adapters.text import prepare_text

register_adapter(
    Adapter(
        name="gpt2",
        prepare=prepare_text,
        explained=last_position,
        causal=True,
        blank=("unk_token", "eos_token", "pad_token"),
    )
)
