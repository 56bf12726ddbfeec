"""ViT: patches of an image behind one CLS token."""

from attnx.adapters.adapter import Adapter
from attnx.adapters.explained import image_position
from attnx.adapters.image import prepare_image
from attnx.adapters.registry import register_adapter

register_adapter(Adapter(name="vit", prepare=prepare_image, explained=image_position))
