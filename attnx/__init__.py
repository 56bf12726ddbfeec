"""attnx follows attention through every layer of a Hugging Face model, and says how far to trust what it shows."""

from attnx.attention import AttentionTensor
from attnx.errors import AttnxError
from attnx.methods.flow import flow
from attnx.methods.raw import raw
from attnx.methods.rollout import rollout

__version__ = "0.1.0"

__all__ = ["AttentionTensor", "AttnxError", "flow", "raw", "rollout"]
