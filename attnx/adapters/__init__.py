"""What differs between families of models: how input is prepared, what its positions are, which is explained."""

from attnx.adapters import bert, distilbert, generic, gpt2, vit  # noqa: F401  (each registers its family)
from attnx.adapters.adapter import Adapter, Prepared
from attnx.adapters.registry import ADAPTERS, adapter_for, adapters, register_adapter

__all__ = ["ADAPTERS", "Adapter", "Prepared", "adapter_for", "adapters", "register_adapter"]
