"""Run a model once and watch its attention, without reloading or changing it.

`capture` is the plain call, `watch` the same as a context manager around your own call of the model.
"""

from attnx.capture.capture import Captured, capture, capture_batch
from attnx.capture.watch import watch

__all__ = ["Captured", "capture", "capture_batch", "watch"]
