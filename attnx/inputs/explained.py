"""Rules for the position that is explained when the user names none."""

from __future__ import annotations

from typing import Any

from torch import nn

from attnx.errors import ChoiceError
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import has_head


def cls_position(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """Where the tokenizer's CLS token stands; the first position when there is none."""
    _refuse_token_classifier(model)
    cls_id = getattr(processor, "cls_token_id", None)
    ids = prepared.inputs["input_ids"].tolist()
    return ids.index(cls_id) if cls_id in ids else 0


def mask_or_cls_position(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """For a masked language model the masked position, if the text has one; otherwise CLS."""
    mask_id = getattr(processor, "mask_token_id", None)
    masks = [index for index, one in enumerate(prepared.inputs["input_ids"].tolist()) if one == mask_id]
    if not masks or not has_head(model, "ForMaskedLM", "ForPreTraining", "WithLMHeadModel"):
        return cls_position(model, processor, prepared)
    if len(masks) > 1:
        raise ChoiceError(
            f"the text has {len(masks)} masks, at positions {', '.join(map(str, masks))}; "
            "say which to explain: position=…"
        )
    return masks[0]


def last_position(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """The last token: in a decoder it alone has seen the whole text, and the next token is predicted from it."""
    _refuse_token_classifier(model)
    last = len(prepared.positions) - 1
    pad_id = getattr(model.config, "pad_token_id", None)
    ids = prepared.inputs["input_ids"].tolist()
    if has_head(model, "ForSequenceClassification") and any(one != pad_id for one in ids):
        # Such heads look for the last token that is not padding, even where that is a token of the text.
        return max(index for index in range(last + 1) if ids[index] != pad_id)
    return last


def image_position(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """CLS, the first of the positions that are no patches."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} has no CLS token: it answers from all patches together; say whose view to "
            "explain: position=…"
        )
    return 0


def sound_position(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """CLS, where the family has one."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} answers from all stretches of time, or at each; say whose view to explain: "
            'position=…, position="every" for each letter that is written, or position="mean" for that of all'
        )
    return 0


def _refuse_token_classifier(model: nn.Module) -> None:
    if has_head(model, "ForTokenClassification"):
        raise ChoiceError(
            "a token classifier gives one answer for each token; say which to explain: position=…, or "
            'position="entities" for each entity that it finds'
        )
