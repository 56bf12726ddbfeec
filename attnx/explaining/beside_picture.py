"""Text that is written beside a picture: new tokens stand behind the text, and the patches behind them.

A finished text is shown the other way round, the picture first: what was written grows at its end.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from attnx.inputs.adapter import Prepared
from attnx.inputs.picture_and_text import TEXT
from attnx.inputs.positions import Positions, Word
from attnx.results.explanation import Explanation


def text_alone(prompt: Prepared) -> Prepared:
    """The positions and words of the text, image tokens among them."""
    length = prompt.text_length
    words = tuple(one for one in prompt.words if max(one.positions) < length)
    return replace(prompt, positions=prompt.positions[:length], words=words)


def beside_picture(begun: Prepared, prompt: Prepared) -> Prepared:
    """The text that goes on from a prompt, with the prompt's picture."""
    length = prompt.text_length
    count = len(begun.positions) - length
    more = {
        name: torch.cat([one, one.new_zeros(count)]) if name not in prompt.joined and len(one) == length else one
        for name, one in prompt.inputs.items()
        if name not in begun.inputs
    }
    patches, words = [], list(begun.words)
    for one in prompt.positions[length:]:
        patches.append(replace(one, index=one.index + count, word=None if one.special else len(words)))
        if not one.special:
            words.append(Word(len(words), one.token, (one.index + count,)))
    readers = prompt.readers
    return replace(
        begun,
        inputs={**begun.inputs, **more},
        positions=Positions((*begun.positions, *patches)),
        words=tuple(words),
        image=prompt.image,
        streams={name: size + (count if name == TEXT else 0) for name, size in prompt.streams.items()},
        joined=prompt.joined,
        readers=None if readers is None else torch.where(readers >= 0, readers + count, readers),
    )


def picture_first(step: Explanation) -> Explanation:
    """The same explanation with the patches in front of the text, as one stream."""
    length, whole = step.streams[TEXT], len(step.positions)
    order = [*range(length, whole), *range(length)]
    places = {old: new for new, old in enumerate(order)}
    return replace(
        step,
        positions=Positions(replace(step.positions[old], index=new) for new, old in enumerate(order)),
        words=tuple(replace(one, positions=tuple(places[place] for place in one.positions)) for one in step.words),
        position=places[step.position],
        relevance={name: scores[..., order].copy() for name, scores in step.relevance.items()},
        references={name: scores[order].copy() for name, scores in step.references.items()},
        maps=None,
        streams={},
    )
