"""Suites of inputs with a known answer, and how often a method finds a planted patch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attnx.adapters import PreparedInput, accepts_image_and_text, adapter_for, read_texts, with_spans
from attnx.benchmarks.benchmark import Explainers, Known, Suite, Trial, scores_of
from attnx.benchmarks.cues import is_cue_file
from attnx.benchmarks.ranking import by_rank, check_labels, token_of_each
from attnx.benchmarks.result import CHANCE, SuiteTable
from attnx.demo_models import (
    DECOYS,
    GRID,
    IMAGE,
    LABELS,
    Beginning,
    Planted,
    picture_question,
    planted_patch,
    planted_tone,
    recall,
    verb_number_data,
)
from attnx.demo_models import (
    dates as generator,
)
from attnx.errors import ChoiceError, InputError
from attnx.evaluation import METRICS, RANDOM
from attnx.evaluation.faithfulness import faithfulness
from attnx.methods import METHODS, PAPER_METHODS
from attnx.pipeline import Request
from attnx.pipeline.explain import explain
from attnx.pronouns import find, masked
from attnx.results import Explanation
from attnx.statistics import bootstrap_interval

T = TypeVar("T")

_AT_ONCE = 64


def _generated(generate: Callable[..., Iterable[T]], trial: Trial, *, first_seed: int = 0) -> Iterator[T]:
    """Samples of a generator without end."""
    for part in count():
        yield from generate(_AT_ONCE, seed=first_seed + trial.seed * 1_000_003 + part)


def dates_questions(trial: Trial) -> Iterator[Known]:
    """Texts without end, each asked for its three fields in one run: what the decoder reads is the right date."""
    tokens = token_of_each(trial.processor, (*generator.YEARS, *generator.FIELDS), "dates")
    prepare = adapter_for(trial.model).prepare
    for dated in _generated(generator.generate, trial):
        fields = dated.written.split()
        prepared = prepare(trial.model, trial.processor, dated.text, target_text=" ".join(fields[:-1]))
        start = len(prepared.positions) - len(fields)
        for place, (field, source) in enumerate(zip(fields, dated.sources, strict=True)):
            request = Request(prepared, position=start + place, target=tokens[field])
            yield Known(request, _units(prepared, start + place), (source,))


def _units(prepared: PreparedInput, position: int) -> tuple[tuple[int, ...], ...]:
    """The words of the source, and those that were written before."""
    return tuple(word.positions for word in prepared.words if max(word.positions) <= position)


def _dates_model() -> tuple[Any, Any]:
    from attnx.demo_models.dates import load_demo

    return load_demo()


DATES = Suite(
    name="dates",
    title="the word that decides each field of a date",
    right="the word of the source that names the year, the month or the day: another word there makes another field",
    source="generated texts, and the embedded encoder–decoder",
    measure=by_rank,
    questions=dates_questions,
    embedded=_dates_model,
    heads=("ForConditionalGeneration",),
    rows=60,
)


def measure(suite: Suite, trial: Trial, explainers: Explainers) -> SuiteTable:
    """Comprehensiveness and sufficiency, beside random orders of the same texts."""
    texts = texts_of(trial)
    first = adapter_for(trial.model).prepare(trial.model, trial.processor, texts[0])
    tried = scores_of(
        trial.model, trial.processor, [Request(first)], explainers, label="trying", progress=trial.progress
    )
    found = faithfulness(
        trial.model,
        trial.processor,
        texts,
        methods=[name for name in explainers.methods if name in tried.rows] or METHODS.names()[:1],  # it wants one
        references={name: reference for name, reference in explainers.references.items() if name in tried.rows},
        normalize=explainers.normalize,
        steps=1,
        seed=trial.seed,
        progress=trial.progress,
        **trial.keeping.options(),
    )
    return SuiteTable(
        values={name: found.values[RANDOM if name == CHANCE else name][:, :2] for name in (*tried.rows, CHANCE)},
        columns=METRICS[:2],
        lower_is_better=METRICS[1:2],
        refused=tried.refused,
        signed=tuple(tried.signed),
        provenance={**found.provenance, "removal": {"baseline": found.replacement, "score": found.score}},
    )


def texts_of(trial: Trial) -> list[Any]:
    """The user's texts: a list, or a file of them."""
    if isinstance(trial.data, (str, Path)):
        return [text.text for text in read_texts(trial.data, limit=trial.rows)]
    texts = list(trial.data or ())[: trial.rows]
    if not texts:
        raise InputError("faithfulness is measured on texts: give them as data, in a list or in a file")
    return texts


FAITHFULNESS = Suite(
    name="faithfulness",
    title="whether the answer hangs on what is put first",
    right="what is put first, where blanking it costs the answer and leaving it alone does not",
    source="the user's texts and model",
    measure=measure,
    takes_data="texts, in a list or in a file",
    fits_data=lambda data: data is not None and not is_cue_file(data),
    rows=100,
)


WOMEN = ("Mary", "Sara", "Anna", "Emma", "Linda", "Julia", "Laura", "Alice")
MEN = ("John", "David", "Peter", "Robert", "James", "Michael", "Thomas", "Daniel")
OCCUPATIONS = ("author", "student", "writer", "artist", "customer", "neighbour", "visitor", "journalist")
TEMPLATES = (
    "{} talked to {} about [MASK] book.",
    "{} wrote to {} about [MASK] plans.",
    "{} met {} in front of [MASK] house.",
    "{} asked {} about [MASK] work.",
)
HER, HIS = "her", "his"


def names_sentences(seed: int = 0) -> list[tuple[str, str, bool]]:
    """Every sentence with its name, and whether it is a woman's; mixed by the seed, two orders of the same in a row."""
    every = list(product((*WOMEN, *MEN), OCCUPATIONS, TEMPLATES))
    random.Random(seed).shuffle(every)
    return [
        (_begun(template.format(*order)), name, name in WOMEN)
        for name, occupation, template in every
        for order in ((f"the {occupation}", name), (name, f"the {occupation}"))
    ]


def names_questions(trial: Trial) -> Iterator[Known]:
    """A question for each sentence; a name that the tokenizer takes apart is one word all the same."""
    for text, name, woman in names_sentences(trial.seed):
        sentence = masked(trial.model, trial.processor, text, (HER, HIS))
        (candidate,) = find([name], sentence)
        words = sentence.prepared.words
        right = tuple(place for place, word in enumerate(words) if set(word.positions) & set(candidate.positions))
        if len(right) != 1:
            raise InputError(f"the tokenizer does not set {name!r} apart from the words around it in {text!r}")
        target = sentence.token_ids if woman else sentence.token_ids[::-1]
        units = tuple(word.positions for word in words)
        yield Known(Request(sentence.prepared, sentence.position, target), units, right)


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


NAMES = Suite(
    name="names",
    title="the name that tells her from his",
    right="the name: the occupation and all other words say nothing of the pronoun",
    source="generated sentences, and the user's masked language model",
    measure=by_rank,
    questions=names_questions,
    heads=("ForMaskedLM", "WithLMHeadModel"),
    fits_data=lambda data: data is None,
    rows=100,
)


def patch_questions(trial: Trial) -> Iterator[Known]:
    """Pictures without end."""
    model = trial.model
    labels = check_labels(model, planted_patch.LABELS, "patch")
    prepare = adapter_for(model).prepare
    for sample in _generated(planted_patch.generate, trial, first_seed=1):
        prepared = prepare(model, trial.processor, sample.image)
        patches = prepared.positions.named
        right = next(place for place, patch in enumerate(patches) if patch.token == sample.token)
        units = tuple(prepared.units)
        yield Known(Request(prepared, target=labels.index(sample.label)), units, (right,))


PATCH = Suite(
    name="patch",
    title="the patch that shows the class",
    right="the planted patch: no other pixel depends on the class",
    source="generated pictures, and the embedded vision transformer",
    measure=by_rank,
    questions=patch_questions,
    unit="patch",
    embedded=planted_patch.load_demo,
    heads=("ForImageClassification",),
    rows=30,
)


def question_questions(trial: Trial) -> Iterator[Known]:
    """Pictures without end, each asked for its colour, behind the words that lead up to it."""
    model, processor = trial.model, trial.processor
    if not accepts_image_and_text(model):
        raise ChoiceError(f"the suite 'question' asks a decoder of pictures and text; {type(model).__name__} is none")
    tokens = token_of_each(processor.tokenizer, tuple(picture_question.COLOURS), "question")
    prepare = adapter_for(model).prepare
    for sample in _generated(picture_question.generate, trial, first_seed=1):
        *before, colour = sample.answer.split()
        text = " ".join((IMAGE, sample.question, *before))
        prepared = prepare(model, processor, {"image": sample.image, "text": text})
        patches = prepared.positions[prepared.text_length :].named
        right = next(place for place, patch in enumerate(patches) if patch.token == sample.token)
        image_tokens = {
            str(position.box): position.index
            for position in prepared.positions[: prepared.text_length]
            if position.box is not None
        }
        # An image token and the patch that it reads are one; the words of the question only say where to look.
        units = tuple((patch.index, image_tokens[str(patch.box)]) for patch in patches)
        yield Known(Request(prepared, target=tokens[colour]), units, (right,))


QUESTION = Suite(
    name="question",
    title="the patch that shows the colour that is asked for",
    right="the patch of the square that the question names: another colour there makes another answer",
    source="generated pictures with questions, and the embedded image–text decoder",
    measure=by_rank,
    questions=question_questions,
    unit="patch",
    embedded=picture_question.load_demo,
    by_name=True,
    heads=("ForConditionalGeneration",),
    rows=60,
)


def recall_questions(trial: Trial) -> Iterator[Known]:
    """Texts without end."""
    tokens = token_of_each(trial.processor, recall.VALUES, "recall")
    prepare = adapter_for(trial.model).prepare
    for sample in _generated(recall.generate, trial):
        prepared = prepare(trial.model, trial.processor, sample.text)
        units = tuple(word.positions for word in prepared.words)
        yield Known(Request(prepared, target=tokens[sample.answer]), units, (sample.source,))


def embedded() -> tuple[Any, Any]:
    """The decoder that ships."""
    from attnx.demo_models.recall import load_demo

    return load_demo()


RECALL = Suite(
    name="recall",
    title="the value that a key is bound to",
    right="the value behind the first mention of the key that is asked: the only place where the answer stands",
    source="generated texts, and the embedded decoder",
    measure=by_rank,
    questions=recall_questions,
    embedded=embedded,
    heads=("ForCausalLM", "LMHeadModel"),
    rows=60,
)


PAIRS, IN_ONE = 8, 2
"""Pairs of a text, and of a document."""


def documents_questions(trial: Trial) -> Iterator[Known]:
    """Texts without end."""
    tokens = token_of_each(trial.processor, recall.VALUES, "recall")
    prepare = adapter_for(trial.model).prepare
    for sample in _generated(partial(recall.generate, pairs=PAIRS), trial):
        prepared = with_spans(prepare(trial.model, trial.processor, sample.text), documents(sample.text))
        units = tuple(span.positions for span in prepared.spans)
        yield Known(Request(prepared, target=tokens[sample.answer]), units, (sample.source // (2 * IN_ONE),))


def documents(text: str) -> list[str]:
    """The parts of a text of recall, without the key that is asked at its end.

    >>> documents("k1 v1 k2 v2 k3 v3 k4 v4 k2")
    ['k1 v1 k2 v2', 'k3 v3 k4 v4']
    """
    words = text.split()[:-1]
    return [" ".join(words[start : start + 2 * IN_ONE]) for start in range(0, len(words), 2 * IN_ONE)]


DOCUMENTS = Suite(
    name="documents",
    title="the document that the answer stands in",
    right="the document with the key that is asked and its value: the answer stands in no other",
    source="generated texts of four documents, and the embedded decoder",
    measure=by_rank,
    questions=documents_questions,
    unit="span",
    embedded=embedded,
    by_name=True,
    heads=("ForCausalLM", "LMHeadModel"),
    rows=60,
)


_POOL = 600
"""Sentences that are drawn at once, to take the same number of each place from."""
_SHOWS_NUMBER = frozenset(verb_number_data.DETERMINERS[0]) ^ frozenset(verb_number_data.DETERMINERS[1]) | {"an"}
_REACH = 2
"""A determiner stands right before its noun, or before the adjective there."""


def subject_questions(trial: Trial) -> Iterator[Known]:
    """Sentences without end."""
    check_labels(trial.model, LABELS, "subject")
    prepare = adapter_for(trial.model).prepare
    for part in count():
        for sentence in subject_sentences(trial.seed * 1_000_003 + part):
            prepared = prepare(trial.model, trial.processor, sentence.text)
            if len(prepared.words) == len(sentence.words) and sentence.subject is not None:
                units = tuple(word.positions for word in prepared.words)
                yield Known(Request(prepared, target=sentence.label), units, (sentence.subject,))


def subject_sentences(seed: int) -> list[Beginning]:
    """Different sentences with one or two attractors, taken from each place of the subject in turn."""
    by_place: dict[int | None, list[Beginning]] = defaultdict(list)
    beginnings, two = (verb_number_data.generate(_POOL // 2, seed=seed, attractors=attractors) for attractors in (1, 2))
    for sentence in (each for pair in zip(beginnings, two, strict=True) for each in pair):
        if not set(sentence.words[: sentence.subject][-_REACH:]) & _SHOWS_NUMBER:
            by_place[sentence.subject].append(sentence)
    turns = list(by_place.values())
    longest = max(map(len, turns))
    return [several[turn] for turn in range(longest) for several in turns if turn < len(several)]


def _subject_model() -> tuple[Any, Any]:
    from attnx.demo_models import load_demo

    return load_demo()


SUBJECT = Suite(
    name="subject",
    title="the subject of the verb",
    right="the subject: the one word that shows the number of the verb to come",
    source="generated sentences with attractors, and the embedded verb-number model",
    measure=by_rank,
    questions=subject_questions,
    embedded=_subject_model,
    heads=("ForSequenceClassification",),
    rows=60,
)


def tone_questions(trial: Trial) -> Iterator[Known]:
    """Sounds without end."""
    model = trial.model
    labels = check_labels(model, planted_tone.LABELS, "tone")
    prepare = adapter_for(model).prepare
    for sample in _generated(planted_tone.generate, trial, first_seed=1):
        audio = {"array": sample.audio, "sampling_rate": planted_tone.RATE}
        prepared = prepare(model, trial.processor, audio)
        times = [prepared.positions[word.positions[0]].time or (0.0, 0.0) for word in prepared.words]
        units = tuple(word.positions for word in prepared.words)
        yield Known(Request(prepared, target=labels.index(sample.label)), units, sample.filled(times))


TONE = Suite(
    name="tone",
    title="the stretch of time whose tone is the class",
    right="the stretches that the planted tone fills by half or more: no other tone depends on the class",
    source="generated sounds, and the embedded audio spectrogram transformer",
    measure=by_rank,
    questions=tone_questions,
    unit="stretch",
    embedded=planted_tone.load_demo,
    by_name=True,
    heads=("ForSequenceClassification", "ForAudioClassification"),
    rows=60,
)


@dataclass(frozen=True)
class PatchFinding:
    """How often the planted patch had the highest score of all patches, and where it stood on average."""

    found: float
    low: float
    high: float
    """The 95 % interval of `found`, by bootstrap over pictures."""
    chance: float
    """What an order by lot finds: one patch of all."""
    striking: float
    """What a method finds that sees only what stands out: the mark is one of it, the decoys are the others."""
    rank: float
    """Mean rank of the planted patch, 1 for the best; patches that tie share theirs."""


def find_patch(
    model: Any,
    processor: Any,
    pictures: Sequence[Planted],
    *,
    methods: Sequence[str] = PAPER_METHODS,
    references: Any = (),
    layer: int | None = None,
    **options: Any,
) -> dict[str, PatchFinding]:
    """Each method and reference on all pictures, at one layer (the last by default)."""
    images = [image.image for image in pictures]
    explanations = explain(model, processor, images, methods=[*methods, *references], **options)
    names = explanations[0].methods
    return {name: _finding([_rank(e, image, name, layer) for e, image in zip(explanations, pictures, strict=True)])
            for name in names}  # fmt: skip


def _rank(explanation: Explanation, picture: Planted, name: str, layer: int | None) -> float:
    """1 plus the patches that score higher, plus half of those that tie. Scores that differ by rounding tie."""
    scores = np.abs(explanation.scores(name, layer))
    patches = {position.token: round(float(scores[position.index]), 9) for position in explanation.positions.named}
    value = patches.pop(picture.token)
    return 1 + sum(other > value for other in patches.values()) + sum(other == value for other in patches.values()) / 2


def _finding(ranks: Sequence[float]) -> PatchFinding:
    hits = np.array([float(rank == 1) for rank in ranks])
    low, high = bootstrap_interval(hits)
    return PatchFinding(float(hits.mean()), low, high, 1 / GRID**2, 1 / (1 + DECOYS), float(np.mean(ranks)))
