"""A flipped bit in a part of a run is noticed."""

from tests.faults import bitflips


def test_no_single_bit_flip_gives_different_data(tmp_path):
    outcomes = bitflips.flipped(tmp_path / "run", flips=60)
    assert outcomes["silently different"] == 0
    assert outcomes["noticed"] > 0
