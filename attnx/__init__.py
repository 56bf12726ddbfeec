"""attnx follows attention through every layer of a Hugging Face model, and says how far to trust what it shows.

The public names are those of `__init__.pyi`. Each is loaded when it is first used: torch takes seconds.
"""

from attnx._lazy import attach_stub

__version__ = "0.2.0"

__getattr__, __dir__ = attach_stub(__name__, __file__)
__all__ = __dir__()
