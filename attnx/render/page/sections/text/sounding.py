"""A sound in a page: its wave or spectrum as a picture, with the box of each stretch of time, and its player."""

from __future__ import annotations

import wave
from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np

from attnx.inputs.waves import Sound
from attnx.render.spectrum import spectrum
from attnx.render.time_strip import banded, envelope
from attnx.results.explanation import Explanation

_WIDTH, _HEIGHT = 960, 180
"""Pixels."""
_PAPER, _INK = 255, 96


def sounding(explanation: Explanation, *, player: bool) -> dict[str, Any] | None:
    """As a picture's entry; None for what is no sound. The player, with the sound in the page, is for who asks."""
    seconds = explanation.seconds
    if seconds is None:
        return None
    channels = max((one.band[1] for one in explanation.positions if one.band is not None), default=1)
    boxes = [
        None if one.time is None else _box(one.time, one.band or (0, 1), seconds, channels if one.band else 1)
        for one in explanation.positions
    ]
    found: dict[str, Any] = {"url": _picture(explanation), "size": [_WIDTH, _HEIGHT], "boxes": boxes, "sound": True}
    if player and explanation.sound is not None:
        found["player"] = _player(explanation.sound)
    return found


def _box(time: tuple[float, float], band: tuple[int, int], seconds: float, channels: int) -> list[float]:
    """Left, top, right and bottom; low pitches are at the bottom."""
    left, right = (_WIDTH * one / seconds for one in time)
    return [left, _HEIGHT * (1 - band[1] / channels), right, _HEIGHT * (1 - band[0] / channels)]


def _picture(explanation: Explanation) -> str:
    """The wave in gray, of a model that hears bands the spectrum; an empty sheet where the sound is not at hand."""
    from PIL import Image

    sheet = np.full((_HEIGHT, _WIDTH), _PAPER, dtype=np.uint8)
    sound = explanation.sound
    if sound is not None and banded(explanation):
        dark = np.round(_PAPER - (_PAPER - _INK) * spectrum(sound)[::-1]).astype(np.uint8)
        picture = Image.fromarray(np.ascontiguousarray(dark)).resize((_WIDTH, _HEIGHT))
    else:
        if sound is not None:
            _draw_wave(sheet, sound)
        picture = Image.fromarray(sheet)
    written = BytesIO()
    picture.save(written, "PNG", optimize=True)
    return f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"


def _draw_wave(sheet: Any, sound: Sound) -> None:
    low, high = envelope(sound, _WIDTH)
    most = max(float(np.abs([low, high]).max()), 1e-9)
    for column in range(_WIDTH):
        at = min(column * len(low) // _WIDTH, len(low) - 1)
        top, bottom = (round((_HEIGHT - 1) * (1 - one / most) / 2) for one in (high[at], low[at]))
        sheet[top : bottom + 1, column] = _INK


def _player(sound: Sound) -> str:
    """The sound as a data address."""
    most = max(float(np.abs(sound.samples).max()), 1e-9)
    whole = np.round(32_767 * sound.samples / max(most, 1.0)).astype("<i2")
    written = BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.rate)
        file.writeframes(whole.tobytes())
    return f"data:audio/wav;base64,{b64encode(written.getvalue()).decode()}"
