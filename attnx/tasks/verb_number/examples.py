"""What a model learns from, and how often: sentences of the data, parts of them, and generated ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.errors import InputError
from attnx.tasks.verb_number.beginning import Beginning
from attnx.tasks.verb_number.config import Recipe
from attnx.tasks.verb_number.generator import generate
from attnx.tasks.verb_number.linzen import Split, without


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SINGULAR_VERBS, _PLURAL_VERBS = _words("is was has"), _words("are were have")
_NOT_BEFORE_A_NOUNS_VERB = _words(
    "i you he she it we they there who which that what this these those here where when how why one ; , : ( ) `` '' "
    "and or but not also to would could should may might can will must did does do is are was were has have had be "
    "been than as if then so such only often usually never always still now thus 's n't 'll 'd cannot all some both "
    "each more most many few several"
)
_BEFORE_AN_INFINITIVE = _words("to would could should may might can will must did does not")

_MOST_WORDS_TO_JOIN = 12
_COPULA = ("is", "are")
_JOINTS = (
    "JJ , and", "JJ , but", "JJ ;", "JJ and", "VBN , while", "VBN because", "JJ , so", "VBN that", "known , although",
    "NN , and", "VBN by NNP , and", "used when", "JJ if", "the NN that", "not JJ , as", "VBN in NNP , where",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """A beginning and the probability that its verb is plural: 0 or 1 from a label, between them from a teacher."""

    text: str
    plural: float


@dataclass(frozen=True)
class LessonSource:
    """Examples of one origin, and how many of them each epoch draws without repeats; None for all."""

    examples: Sequence[Example]
    per_epoch: int | None = None

    def draw(self, rng: random.Random) -> list[Example]:
        count = len(self.examples) if self.per_epoch is None else min(self.per_epoch, len(self.examples))
        return rng.sample(self.examples, count)


def labelled_sources(split: Split, recipe: Recipe) -> list[LessonSource]:
    """Everything with a true label: natural lines, inner verbs, attractor lines, generated and joined ones."""
    lines = [beginning for file in split.train for beginning in file]
    natural = [line for line in lines if line.natural]
    selected = [line for line in lines if not line.natural]
    inner = [cut for line in lines for cut in inner_beginnings(line.text)]
    generated = generate(10 * recipe.generated, seed=recipe.seed) if recipe.generated else []
    kept = split.held_out
    return [
        LessonSource(_examples(natural)),
        LessonSource(_examples(without(inner, kept))),
        LessonSource(_examples(selected), recipe.attractor_lines),
        LessonSource(_examples(without(generated, kept)), recipe.generated),
        LessonSource(_examples(without(joined(natural, 6 * recipe.joined, recipe.seed), kept)), recipe.joined),
    ]


def inner_beginnings(text: str) -> list[Beginning]:
    """The beginnings that end before an inner verb of known number: "the cat *is* old but the dogs" → "the cat".

    Only is/are, was/were and has/have after what may be a noun; pronouns, infinitives and inversions are passed over.
    """
    words = text.split()
    found = []
    for index in range(1, len(words)):
        verb, before = words[index], words[index - 1]
        if verb not in _SINGULAR_VERBS | _PLURAL_VERBS or before in _NOT_BEFORE_A_NOUNS_VERB:
            continue
        if verb == "have" and _BEFORE_AN_INFINITIVE & set(words[max(0, index - 2) : index]):
            continue
        found.append(Beginning(" ".join(words[:index]), int(verb in _PLURAL_VERBS)))
    return found


def joined(natural: Sequence[Beginning], count: int, seed: int) -> list[Beginning]:
    """Beginnings of two clauses, of which the second has the verb to come: "the cat *is JJ , but* the dogs".

    Long natural beginnings are few and their early nouns mislead; here the early nouns are sure to be of no account.
    """
    rng = random.Random(f"joined {seed}")
    short = [line for line in natural if len(line.words) <= _MOST_WORDS_TO_JOIN]
    pairs = (rng.sample(short, 2) for _ in range(count if len(short) > 1 else 0))
    return [
        Beginning(f"{first.text} {_COPULA[first.label]} {rng.choice(_JOINTS)} {second.text}", second.label)
        for first, second in pairs
    ]


def prefixes(split: Split) -> list[str]:
    """Shorter beginnings of those in the data, for a teacher to label, each once and in the order of the data.

    A beginning is cut after words that beginnings are apt to end with (nouns, mostly), not after "the" or "of".
    """
    texts = list(dict.fromkeys(beginning.text for file in split.train for beginning in file))
    anywhere = Counter(word for text in texts for word in text.split())
    last = Counter(text.rsplit(" ", 1)[-1] for text in texts)
    apt = {word for word in last if last[word] >= 0.08 * anywhere[word]}
    known = split.held_out.union(texts)
    cut: dict[str, None] = {}
    for text in texts:
        words = text.split()
        for end in range(1, len(words)):
            if words[end - 1] in apt:
                cut[" ".join(words[:end])] = None
    return [text for text in cut if text not in known]


def noun_phrases(words: Iterable[str], split: Split) -> list[str]:
    """ "the key", "the cabinets", …: each word by itself, for a teacher to say which are plural nouns."""
    known = split.held_out
    return [phrase for phrase in (f"the {word}" for word in words) if phrase not in known]


def _examples(beginnings: Iterable[Beginning]) -> list[Example]:
    return [Example(beginning.text, float(beginning.label)) for beginning in beginnings]


@dataclass(frozen=True)
class LessonBatch:
    """Token ids and mask, batch × position, and each sentence's probability of a plural verb."""

    ids: Tensor
    mask: Tensor
    plural: Tensor


def epoch_batches(
    sources: Sequence[LessonSource], token_ids: Mapping[str, Sequence[int]], recipe: Recipe, epoch: int, pad: int
) -> list[LessonBatch]:
    """One epoch. Sentences are sorted by length within buckets, then batches are shuffled."""
    rng = random.Random(f"epoch {recipe.seed} {epoch}")
    examples = [example for source in sources for example in source.draw(rng)]
    rng.shuffle(examples)
    bucket = recipe.batch * recipe.sorted_batches
    batches = [
        chunk
        for start in range(0, len(examples), bucket)
        for chunk in _chunks(
            sorted(examples[start : start + bucket], key=lambda example: len(token_ids[example.text])), recipe.batch
        )
    ]
    rng.shuffle(batches)
    return [_batch(chunk, token_ids, pad) for chunk in batches]


def tokenize(texts: Sequence[str], tokenizer: object, positions: int) -> dict[str, list[int]]:
    """Token ids of each different text; one that the model has no positions for is an error."""
    different = list(dict.fromkeys(texts))
    ids = dict(zip(different, tokenizer(different, verbose=False)["input_ids"], strict=True)) if different else {}  # type: ignore[operator]
    for text, tokens in ids.items():
        if len(tokens) > positions:
            raise InputError(
                f"a sentence has {len(tokens)} tokens, the model {positions} positions; "
                f"delete or shorten it: {text[:60]}…"
            )
    return ids


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, filled up with `pad`, and the mask of what is not padding."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def _batch(examples: Sequence[Example], token_ids: Mapping[str, Sequence[int]], pad: int) -> LessonBatch:
    ids, mask = padded([token_ids[example.text] for example in examples], pad)
    return LessonBatch(ids, mask, torch.tensor([example.plural for example in examples]))


def _chunks(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))
