"""Nothing in place of something: how a token, word, patch or stretch of sound is blanked out, by one rule for all.

The mask token stands for nothing, or a true unknown token: one that unknown words become. Tokenizers that spell every
word in bytes know none, and call the end of a text so: blanking with it would cut the text in two. A token that begins,
ends, separates or pads is no blank. Where none is left, it is the mean of all embeddings: no word in particular, and in
its place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import signature
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import Adapter, AudioInput, Box, Positions, PreparedInput, Samples, vocabulary_size
from attnx.attention import normalize_rows
from attnx.errors import CaptureError, ChoiceError, InputError, out_of_memory, whole_number
from attnx.hooks import collate, eval_mode, grad_mode, padding_id, run_model, slack
from attnx.linearize import Fingerprint, to_device_of, weights_fingerprint
from attnx.registry import unknown
from attnx.targets import head_values

Fill: TypeAlias = Callable[[PreparedInput, Any], Tensor]
"""(image, processor) → what stands in place of its pixels, or of a colour each."""


def painted(prepared: PreparedInput, places: Sequence[int], fill: Fill, processor: Any) -> PreparedInput:
    """Something else over the patches at these positions."""
    pixels = prepared.inputs["pixel_values"].clone()
    paint = fill(prepared, processor).expand_as(pixels)
    if prepared.readers is not None:
        covered = torch.isin(prepared.readers, torch.tensor(list(places)))
        return replace(prepared, inputs={**prepared.inputs, "pixel_values": torch.where(covered, paint, pixels)})
    for left, top, right, bottom in _boxes(prepared, places):
        pixels[:, top:bottom, left:right] = paint[:, top:bottom, left:right]
    return replace(prepared, inputs={**prepared.inputs, "pixel_values": pixels})


def _boxes(prepared: PreparedInput, places: Sequence[int]) -> list[Box]:
    assert prepared.boxes is not None
    return [box for place in places if (box := prepared.boxes[place]) is not None]


def _gray(prepared: PreparedInput, processor: Any) -> Tensor:
    """Half-way between black and white, as the processor scales pixels; 0 where it does not say."""
    pixels = prepared.inputs["pixel_values"]
    processor = getattr(processor, "image_processor", processor)
    mean, deviation = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if mean is None or deviation is None or not getattr(processor, "do_normalize", True):
        return pixels.new_full((1,) * pixels.ndim, 0.5 if getattr(processor, "do_normalize", True) is False else 0.0)
    channels = torch.tensor([(0.5 - centre) / scale for centre, scale in zip(mean, deviation, strict=True)]).to(pixels)
    if pixels.ndim == 2:  # patches in rows, the pixels of each channel one behind the other
        return channels.repeat_interleave(pixels.shape[1] // len(channels))
    return channels.expand(pixels.shape[-3])[:, None, None]


def _mean_of_pixels(prepared: PreparedInput, processor: Any) -> Tensor:
    pixels = prepared.inputs["pixel_values"]
    return pixels.mean(0, keepdim=True) if pixels.ndim == 2 else pixels.mean((-2, -1), keepdim=True)


def _blur(prepared: PreparedInput, processor: Any) -> Tensor:
    """By a Gaussian as wide as a patch: nothing within one is left to see."""
    pixels = prepared.inputs["pixel_values"]
    left, top, right, bottom = _boxes(prepared, range(len(prepared.positions)))[0]
    for axis, width in ((1, bottom - top), (2, right - left)):
        pixels = _blurred(pixels, axis, float(width))
    return pixels


def _blurred(pixels: Tensor, axis: int, width: float) -> Tensor:
    """Each line is the mean of all, by their distance; at the edges of those that there are."""
    places = torch.arange(pixels.shape[axis], dtype=pixels.dtype, device=pixels.device)
    weights = torch.exp(-(((places[:, None] - places) / width) ** 2) / 2)
    return (pixels.movedim(axis, -1) @ normalize_rows(weights).T).movedim(-1, axis)


FILLS: Mapping[str, Fill] = {"gray": _gray, "mean": _mean_of_pixels, "blur": _blur}


SILENCE = "silence"


def silence_audio(prepared: PreparedInput, places: Sequence[int]) -> PreparedInput:
    """Nothing to be heard at these positions."""
    audio_input = prepared.audio_input
    assert audio_input is not None
    whole, parts = _by_stretch(prepared, places)
    values = prepared.inputs[audio_input.entry]
    if audio_input.process is None or audio_input.audio is None:
        quiet, values = audio_input.quiet(values), values.clone()
        _copy(audio_input, quiet, values, places)
    else:
        samples = audio_input.audio.samples
        values = _read(audio_input, _quieted(prepared, samples, whole), values) if whole else values.clone()
        if parts:
            _copy(audio_input, _read(audio_input, _quieted(prepared, samples, [*whole, *parts]), values), values, parts)
    return replace(prepared, inputs={**prepared.inputs, audio_input.entry: values})


def stretch_groups(prepared: PreparedInput, size: int) -> list[tuple[int, ...]]:
    """The stretches of the sound, each with all its bands, so many neighbours together."""
    each = prepared.positions.time_segments
    return [
        tuple(place for segment in each[start : start + size] for place in segment)
        for start in range(0, len(each), size)
    ]


def _by_stretch(prepared: PreparedInput, places: Sequence[int]) -> tuple[list[int], list[int]]:
    """Places whose whole stretch is asked for, and those that are one band of it."""
    requested = set(places)
    whole = {
        place for segment in prepared.positions.time_segments if requested.issuperset(segment) for place in segment
    }
    return sorted(whole), sorted(requested - whole)


def _quieted(prepared: PreparedInput, samples: Samples, places: Sequence[int]) -> Samples:
    assert prepared.audio_input is not None
    assert prepared.audio_input.audio is not None
    quiet, rate = samples.copy(), prepared.audio_input.audio.rate
    for place in places:
        start, end = prepared.positions[place].time or (0.0, 0.0)
        quiet[round(start * rate) : round(end * rate)] = 0
    return quiet


def _read(audio_input: AudioInput, samples: Samples, like: Tensor) -> Tensor:
    assert audio_input.process is not None
    return audio_input.process(samples).to(like)


def _copy(audio_input: AudioInput, source: Tensor, values: Tensor, places: Sequence[int]) -> None:
    for place in places:
        cell = audio_input.cells[place]
        if cell is not None:
            values[cell] = source[cell]


_AT_ONCE = 8_192
"""Tokens that are embedded together for the mean."""

_same: weakref.WeakKeyDictionary[nn.Module, bool | None] = weakref.WeakKeyDictionary()
_takes_means: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
_means: weakref.WeakKeyDictionary[nn.Module, tuple[Fingerprint, Tensor]] = weakref.WeakKeyDictionary()


ENTRIES = {"input_ids": "inputs_embeds", "decoder_input_ids": "decoder_inputs_embeds"}
"""By which names ids go into a model, and by which their embeddings."""


def takes_embeddings(model: nn.Module) -> bool:
    return "inputs_embeds" in signature(model.forward).parameters


def same_by_embeddings(model: nn.Module, adapter: Adapter, processor: Any, example: PreparedInput) -> bool | None:
    """Whether embeddings lead to the answer that token ids lead to; tried once for each model.

    None where the model does not run on embeddings alone: it takes none, or needs the ids as well (DeepSeek-V4).
    """
    if not takes_embeddings(model):
        return None
    if model not in _same:
        pad_id = padding_id(model, processor)
        with eval_mode(model):
            by_id = head_values(model, run_model(model, collate(model, [example], pad_id)))
        if by_id is None:
            raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
        output = _output(model, lambda: embedded(model, adapter, example), pad_id)
        numbers = None if output is None else head_values(model, output)
        _same[model] = None if numbers is None else torch.allclose(by_id, numbers, atol=slack(by_id), rtol=0)
    return _same[model]


def takes_means(model: nn.Module, processor: Any, blanked: Callable[[], PreparedInput]) -> bool:
    """Whether the model runs on an embedding that is no row of its table; Gemma 4 looks for the row."""
    if model not in _takes_means:
        _takes_means[model] = _output(model, blanked, padding_id(model, processor)) is not None
    return _takes_means[model]


def _output(model: nn.Module, made: Callable[[], PreparedInput], pad_id: int | None) -> Any:
    """What the model returns for this input, which it need not be able to read: None where it fails."""
    try:
        with eval_mode(model):
            return run_model(model, collate(model, [made()], pad_id))
    except Exception as error:  # whatever a model raises that needs ids
        if out_of_memory(error):
            raise
        return None


def has_mean(model: nn.Module, adapter: Adapter) -> bool:
    """Whether the embedding is a table, and not a function."""
    try:
        return isinstance(getattr(adapter.embedding_module(model), "num_embeddings", None), int)
    except CaptureError:  # it names none
        return False


def embedded(model: nn.Module, adapter: Adapter, prepared: PreparedInput) -> PreparedInput:
    """The same input by its embeddings."""
    inputs = dict(prepared.inputs)
    with grad_mode(gradients=False):
        for name in prepared.ids:
            module = embedding_of(model, adapter, name)
            ids = inputs.pop(name)
            inputs[ENTRIES[name]] = module(to_device_of(module, ids[None]))[0]
    return replace(prepared, inputs=inputs)


def embedding_of(model: nn.Module, adapter: Adapter, name: str) -> nn.Module:
    """The module that embeds these ids: those of an output have one of their own."""
    if name == "decoder_input_ids" and adapter.decoder_embeddings is not None:
        return adapter.decoder_embeddings(model)
    return adapter.embedding_module(model)


def mean_embedding(module: nn.Module) -> Tensor:
    """What a token's embedding is on average over the vocabulary; computed anew when its weights have changed."""
    check = weights_fingerprint(module)
    kept = _means.get(module)
    if kept is None or check is None or kept[0] != check:
        kept = check, _mean_of_table(module)
        _means[module] = kept
    return kept[1]


def _mean_of_table(module: nn.Module) -> Tensor:
    ids = to_device_of(module, torch.arange(int(module.num_embeddings)))  # type: ignore[arg-type]
    with grad_mode(gradients=False):
        sums = [module(some[None])[0].sum(0, dtype=torch.float64) for some in torch.split(ids, _AT_ONCE)]
    return torch.stack(sums).sum(0) / len(ids)


DELETE, MEAN = "delete", "mean"

Named: TypeAlias = str | int | None
"""A blank as the caller names it; None leaves it to the rule."""

_ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token")
"""What the model takes for the frame of a text, and not for a word that is missing."""


_NO_WORD = "\ua66e\U0002a6a5"
"""Two letters that nobody writes: a Slavonic eye with seven pupils, and the Chinese character of most strokes."""


MEAN_NAME = "mean embedding"
"""As results say it, and as it may be asked for again."""


@dataclass(frozen=True)
class Baseline:
    """What stands for nothing."""

    name: str
    """As results say it: a token, "mean embedding", "deletion", "gray"."""
    apply: Callable[[PreparedInput, Sequence[int]], PreparedInput]
    """(input, positions) → the input with nothing at these positions."""
    shortens: bool = False
    """Whether blanked positions are gone, and those behind them move up."""
    entry: str = "input_ids"
    """How blanked inputs enter the model."""


def choose_baseline(
    model: nn.Module, adapter: Adapter, processor: Any, prepared: PreparedInput, named: Named = None
) -> Baseline:
    """The blank that the caller named, or by the rule.

    For text: a token, its id, `"unk_token"` and the like, `"mean"`, the mean of all embeddings, or `"delete"`. For an
    image: `"gray"` (the default), `"mean"`, the mean colour of the picture, or `"blur"`, the picture out of focus,
    which takes away detail without putting in edges that no photo has. Of sound it is silence.
    """
    if prepared.audio_input is not None:
        if named not in (None, SILENCE):
            raise ChoiceError(unknown("baseline", named, (SILENCE,)) + " (this is sound)")
        return _silence(model, adapter, prepared)
    if prepared.readers is not None:
        return _of_both(model, adapter, processor, prepared, named)
    if prepared.boxes is not None:
        if named is not None and (not isinstance(named, str) or named not in FILLS):
            raise ChoiceError(unknown("baseline", named, FILLS) + " (this is an image)")
        fill = str(named or "gray")
        return Baseline(fill, partial(painted, fill=FILLS[fill], processor=processor))
    if named is None:
        return _by_rule(model, adapter, processor, prepared)
    if named in (DELETE, _deletion().name):
        return _deletion()
    if named in (MEAN, MEAN_NAME):
        if not _has_mean(model, adapter, processor, prepared):
            raise InputError(
                "baseline='mean' needs a model that answers to inputs_embeds as to input_ids, also to those that "
                f"are no rows of its table, and {type(model).__name__} does not; give baseline= a token or {DELETE!r}"
            )
        return _mean(model, adapter)
    return _token(processor, _token_id(model, processor, named))


_ON_BOTH = ("gray", MEAN)
"""What patches beside a text can be painted with."""


def _of_both(model: nn.Module, adapter: Adapter, processor: Any, prepared: PreparedInput, named: Named) -> Baseline:
    """Of a picture with a text: paint over patches, and a token in place of tokens; no position goes."""
    if named is not None and named not in _ON_BOTH:
        raise ChoiceError(
            unknown("baseline", named, _ON_BOTH) + " (patches of a picture, beside which tokens have one)"
        )
    fill = str(named or _ON_BOTH[0])
    tokenizer = processor.tokenizer
    taken = _framing_ids(model, tokenizer)
    known = (getattr(tokenizer, f"{name}_id", None) for name in adapter.baseline)
    blank_id = next((int(id_) for id_ in known if id_ is not None and int(id_) not in taken), None)

    def apply(prepared: PreparedInput, places: Sequence[int]) -> PreparedInput:
        words = [index for index in places if index < prepared.text_length]
        if words and blank_id is None:
            raise InputError("the tokenizer has no token for nothing; name patches alone, or methods=['lrp']")
        blanked = prepared if blank_id is None or not words else replaced(prepared, words, blank_id)
        patches = [index for index in places if index >= prepared.text_length]
        return painted(blanked, patches, FILLS[fill], processor) if patches else blanked

    return Baseline(fill if blank_id is None else f"{fill}, {tokenizer.convert_ids_to_tokens(blank_id)}", apply)


def _by_rule(model: nn.Module, adapter: Adapter, tokenizer: Any, prepared: PreparedInput) -> Baseline:
    taken = _framing_ids(model, tokenizer)
    for name in adapter.baseline:
        token_id = getattr(tokenizer, f"{name}_id", None)
        unused = name == "unk_token" and not _becomes_unknown(tokenizer)
        if token_id is not None and int(token_id) not in taken and not unused:
            return _token(tokenizer, int(token_id))
    return _mean(model, adapter) if _has_mean(model, adapter, tokenizer, prepared) else _deletion()


def _has_mean(model: nn.Module, adapter: Adapter, tokenizer: Any, prepared: PreparedInput) -> bool:
    """Whether a mean of embeddings can stand for nothing."""
    if not has_mean(model, adapter) or not same_by_embeddings(model, adapter, tokenizer, prepared):
        return False
    return takes_means(model, tokenizer, lambda: _mean(model, adapter).apply(prepared, [0]))


def _becomes_unknown(tokenizer: Any) -> bool:
    """Whether a word that no vocabulary has becomes the unknown token; a tokenizer that cannot be asked is believed."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return True
    return tokenizer.unk_token_id in backend.encode(_NO_WORD, add_special_tokens=False).ids


def _framing_ids(model: nn.Module, tokenizer: Any) -> set[int]:
    """Tokens that begin, end, separate or pad a text, by the tokenizer and by the model itself."""
    config = model.config
    values = [
        getattr(owner, f"{role}_id", None) for owner in (tokenizer, config, _text_config(config)) for role in _ROLES
    ]
    several = [id_ if isinstance(id_, (list, tuple)) else [id_] for id_ in values]
    return {int(index) for ids in several for index in ids if isinstance(index, int)}


def _text_config(config: Any) -> Any:
    return getattr(config, "text_config", None)


def _token(tokenizer: Any, blank_id: int) -> Baseline:
    names = getattr(tokenizer, "convert_ids_to_tokens", str)
    return Baseline(str(names(blank_id)), partial(replaced, blank_id=blank_id))


def _mean(model: nn.Module, adapter: Adapter) -> Baseline:
    @cache
    def mean_of(embedding: nn.Module, weights: Fingerprint) -> Tensor:
        """Once for all variants, unless its weights have changed; offloaded ones are loaded, and cannot be compared."""
        return mean_embedding(embedding)

    def apply(prepared: PreparedInput, places: Sequence[int]) -> PreparedInput:
        entered = embedded(model, adapter, prepared)
        inputs = dict(entered.inputs)
        for name, indices in _by_stream(prepared, places):
            values = inputs[ENTRIES[name]].clone()
            embedding = embedding_of(model, adapter, name)
            values[indices] = mean_of(embedding, weights_fingerprint(embedding)).to(values)
            inputs[ENTRIES[name]] = values
        return replace(entered, inputs=inputs)

    return Baseline(MEAN_NAME, apply, entry="inputs_embeds")


def _silence(model: nn.Module, adapter: Adapter, prepared: PreparedInput) -> Baseline:
    """Silence for the sound; what was written of it goes in by embeddings, their mean stands for nothing."""
    if not prepared.sequences:
        return Baseline(SILENCE, silence_audio)
    mean = _mean(model, adapter)

    def apply(prepared: PreparedInput, places: Sequence[int]) -> PreparedInput:
        source = prepared.encoder_length
        quiet = silence_audio(prepared, [place for place in places if place < source])
        return mean.apply(quiet, [place for place in places if place >= source])

    return Baseline(f"{SILENCE}, {MEAN_NAME} in the output", apply, entry=mean.entry)


def _deletion() -> Baseline:
    return Baseline("deletion", deleted, shortens=True)


def replaced(prepared: PreparedInput, places: Sequence[int], blank_id: int) -> PreparedInput:
    """Another token at these positions."""
    inputs = dict(prepared.inputs)
    for name, indices in _by_stream(prepared, places):
        inputs[name] = inputs[name].clone()
        inputs[name][indices] = blank_id
    return replace(prepared, inputs=inputs)


def _by_stream(prepared: PreparedInput, places: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The inputs that hold ids, and which of the places are in each, counted from its beginning."""
    by_input = [
        (name, [index - span.start for index in places if span.start <= index < span.stop])
        for name, span in prepared.ids.items()
    ]
    if sum(len(indices) for _, indices in by_input) < len(places):
        raise InputError("sound has no token that stands for nothing; blank it by silence")
    return [(name, indices) for name, indices in by_input if indices]


def deleted(prepared: PreparedInput, places: Sequence[int]) -> PreparedInput:
    """The input without these positions; what comes behind moves up."""
    gone = set(places)
    kept = [index for index in range(len(prepared.positions)) if index not in gone]
    if not kept:
        raise ChoiceError("nothing would be left of the text; blank it with a token instead of deleting")
    positions = Positions(prepared.positions[index] for index in kept)
    if prepared.sequences:
        return _shortened(prepared, places, positions)
    inputs = {name: tensor[kept] for name, tensor in prepared.inputs.items()}
    return replace(prepared, inputs=inputs, positions=positions)


def _shortened(prepared: PreparedInput, places: Sequence[int], positions: Positions) -> PreparedInput:
    """Two streams, each without its own of the places."""
    gone = dict(_by_stream(prepared, places))
    inputs, lengths = dict(prepared.inputs), []
    for name, span in prepared.ids.items():
        kept = [index for index in range(span.stop - span.start) if index not in gone.get(name, [])]
        if not kept:
            raise ChoiceError("nothing would be left of a stream; blank it with a token instead of deleting")
        # A mask is as long as the ids that it is about.
        about = (name, name.replace("input_ids", "attention_mask"))
        inputs |= {name: inputs[name][kept] for name in about if name in inputs}
        lengths.append(len(kept))
    sequences = dict(zip(prepared.sequences, lengths, strict=True))
    return replace(prepared, inputs=inputs, positions=positions, sequences=sequences)


def _token_id(model: nn.Module, tokenizer: Any, baseline: str | int) -> int:
    """The id of a blank that the user named; one that the tokenizer does not have is an error."""
    size = vocabulary_size(model)
    if not isinstance(baseline, str):
        blank_id = whole_number("baseline", baseline)
        if blank_id < 0 or (size is not None and blank_id >= size):
            raise ChoiceError(f"baseline {blank_id} is no token id of this vocabulary of {size}")
        return blank_id
    if baseline.endswith("_token"):
        token_id = getattr(tokenizer, f"{baseline}_id", None)
        if token_id is None:
            raise ChoiceError(
                f"baseline {baseline!r} was requested, but the tokenizer has no such token; give another token of its "
                f"vocabulary, its id, {MEAN!r} or {DELETE!r}"
            )
        return int(token_id)
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    if baseline not in vocabulary:
        raise ChoiceError(
            f"baseline {baseline!r} is no token of this tokenizer; give one of its vocabulary, its id, 'unk_token', "
            f"'mask_token', 'pad_token', {MEAN!r} or {DELETE!r}"
        )
    return vocabulary[baseline]
