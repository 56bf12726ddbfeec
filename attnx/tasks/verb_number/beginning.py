"""One example of the task: the beginning of a sentence, up to the verb, and the number of that verb."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Beginning:
    """The words before the verb, separated by spaces, and what is known about them.

    `label` is 0 for a singular verb (VBZ) and 1 for a plural one (VBP). `subject` and `attractors` are word indices
    from 0 (`<bos>` is not counted); `attractor_count` is known more often than where they stand.
    """

    text: str
    label: int
    subject: int | None = None
    attractors: tuple[int, ...] | None = None
    attractor_count: int | None = None
    natural: bool = True
    """False where the file holds only lines that were chosen for their attractors, which nature has far fewer of."""

    @property
    def words(self) -> list[str]:
        return self.text.split()
