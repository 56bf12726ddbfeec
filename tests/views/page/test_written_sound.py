"""Text that was written from sound, in the page: the wave under what each token drew from, and no padding."""

import numpy as np
import pytest

from attnx.adapters import Audio, Position, Positions
from attnx.generation import GenerationExplanation
from attnx.generation import result as generation
from attnx.targets import Prediction
from attnx.views import Shown
from tests.made import generation as made_generation


@pytest.fixture
def written():
    """Three stretches of time, one of padding, a start, and one token behind them."""
    positions = [Position(at, f"{at / 10:.2f} s", time=(at / 10, (at + 1) / 10)) for at in range(3)]
    positions += [
        Position(3, "[PAD]", special=True),
        Position(4, "<s>", special=True),
        Position(5, "hi", start=0, end=2),
    ]
    return made_generation(
        positions=Positions(positions),
        words=(),
        prompt_length=5,
        layer=1,
        relevance={"rollout": np.full((1, 5), 0.2)},
        predictions=(Prediction("token", "hi", 7, 0.5, ("hi",), (1.0,)),),
        text="hi",
        sequences={"source": 4, "output": 2},
        audio=Audio(np.zeros(4_800, dtype=np.float32), 16_000),
    )


def told(written, **options):
    (text,) = generation.generation_section(Shown.of(written, (GenerationExplanation,), **options))["texts"]
    return text


def test_each_stretch_has_its_box_under_the_wave(written):
    picture = told(written)["image"]
    assert picture["audio"]
    assert [bool(box) for box in picture["boxes"]] == [True] * 3 + [False] * 2
    assert picture["boxes"][1][0] == pytest.approx(picture["size"][0] / 3)


def test_padding_is_no_token_to_look_at_and_the_start_of_the_output_is(written):
    assert [bool(one.get("padding")) for one in told(written)["tokens"]] == [False] * 3 + [True, False, False]


def test_the_sound_itself_is_there_for_who_asks(written):
    assert "player" not in told(written)["image"]
    assert told(written, player=True)["image"]["player"].startswith("data:audio/wav;base64,")
