"""Whether a tensor's value is at hand: on a CPU it is, an accelerator has to be waited for.

Where an answer would only save some work, it is asked for if it is at hand, and the work is done if it is not.
"""

from __future__ import annotations

from torch import Tensor


def at_hand(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"
