"""Model families, and the preparation of everything that a user can hand to `explain`: text, chat, image, audio."""

from attnx._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
