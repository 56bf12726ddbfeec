"""A map of a model's heads: what each carries to the explained position, and how far it agrees with the references."""

from attnx.atlas.atlas import HeadAtlas, HeadScore
from attnx.atlas.head_atlas import head_atlas

__all__ = ["HeadAtlas", "HeadScore", "head_atlas"]
