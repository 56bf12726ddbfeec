"""What files of format 1 do not tell, derived as the code of their time derived it from what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def explanation_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Of an explanation: decoders alone had a share of their first token, flow could be saturated, references
    knew the answer."""
    saturation, settings = data["saturation"], data["provenance"].get("settings", {})
    return {
        **method_facts({**data["relevance"], **data["references"]}),
        "about_answer": list(data["references"]),
        "causal": data["sink"] is not None or settings.get("causal", False),
        "diagnostics": {} if saturation is None else {"flow": {"saturation": saturation}},
    }


def method_facts(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Of methods and references: flow was exact to 1e-9, raw attention of one layer, and a sign told by itself."""
    return {
        "signed": [name for name, one in scores.items() if (np.asarray(one) < 0).any()],
        "digits": {name: 9 for name in scores if name == "flow"},
        "local": [name for name in scores if name == "raw"],
    }
