"""Run a model once and watch its attention, without reloading or changing it.

`capture` is the plain call, `watch` the same as a context manager around your own call of the model. `capture_long`
keeps queries and keys instead of weights.
"""

from attnx.capture.capture import Captured, LongCaptured, capture, capture_batch, capture_long, capture_long_batch
from attnx.capture.watch import watch

__all__ = [
    "Captured",
    "LongCaptured",
    "capture",
    "capture_batch",
    "capture_long",
    "capture_long_batch",
    "watch",
]
