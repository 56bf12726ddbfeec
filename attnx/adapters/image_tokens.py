"""How a picture gets into a decoder's sequence: which patches each image token reads, found by running the model.

Between a vision tower and a decoder stands a projector, which merges patches, shuffles them, drops tokens of the
tower's own, or takes a picture in tiles. Instead of reading its code, attnx runs the model with attention in which
every position reads itself alone. Then nothing mixes positions but the projector: a change of one position of the tower
is seen by exactly the image tokens that read it, and a change of a pixel by exactly the position whose patch has it.

Who reads whom is found by gradients. The image tokens are numbered in binary, and for each digit all of them are summed
with the sign of that digit: where one token alone reads a position, the position's gradient is that of the plain sum,
but for the sign, and its signs spell the token's number. Nothing of the model is changed: a mode of torch looks on.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnx.adapters.model_config import called

PIXELS = "pixel_values"
_TOPS = 3
"""How many layers of a tower are tried from its end: decoders often read the last but one."""
_PASSED = ("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_dropout")

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Projection:
    """Which positions of a vision tower each position of the decoder is made of, and where the tower's are read."""

    decoder: str
    """The name of the module in which the text and the picture are one sequence."""
    tower: tuple[str, ...]
    """The modules that attended over the picture, from the pixels up to the last that the decoder reads."""
    patches: int
    """Positions of the tower, of all tiles and pictures together."""
    reads: tuple[tuple[int, ...], ...]
    """For each position of the decoder those of the tower; none for text."""
    readers: Tensor
    """In the shape of the pixel values: the position of the tower that reads each of them; −1 for none."""


_known: weakref.WeakKeyDictionary[nn.Module, dict[Key, Projection | None]] = weakref.WeakKeyDictionary()


def find_projection(model: nn.Module, inputs: Mapping[str, Any]) -> Projection | None:
    """Of one input, a batch of one as the model takes it; None where image tokens are no fixed map of patches.

    It depends on the shapes alone, and is measured once for each.
    """
    if not isinstance(inputs.get(PIXELS), Tensor) or not isinstance(inputs.get("input_ids"), Tensor):
        return None
    known = _known.setdefault(model, {})
    key = _key(inputs)
    if key not in known:
        known[key] = _measured(model, inputs)
    return known[key]


def _key(inputs: Mapping[str, Any]) -> Key:
    """What the map depends on: where the tokens of each id stand that occurs often, sizes and grids, and all shapes."""
    ids = inputs["input_ids"].flatten().tolist()
    often = {one for one in set(ids) if ids.count(one) > 1}
    placed = tuple(one if one in often else -1 for one in ids)
    small = [
        (
            name,
            tuple(tensor.flatten().tolist()) if tensor.numel() < 64 and not tensor.is_floating_point() else (),
            tensor.shape,
        )
        for name, tensor in sorted(inputs.items())
        if isinstance(tensor, Tensor) and name != "input_ids"
    ]
    return (placed, tuple(small))


def _measured(model: nn.Module, inputs: Mapping[str, Any]) -> Projection | None:
    decoder = decoder_name(model)
    if decoder is None:
        return None
    run = _Run(model, decoder, {**inputs, **_dense(inputs)})
    calls = run.calls()
    layers = _layers(calls)
    if not layers:
        return None
    readers = run.readers(len(layers[0]))
    for top in range(len(layers) - 1, max(-1, len(layers) - 1 - _TOPS), -1):
        reads = run.reads(sum(len(layer) for layer in layers[:top]), len(layers[top]))
        if reads is not None:
            break
    if readers is None or reads is None:
        return None
    count = sum(layer.positions for layer in layers[0])
    tower = tuple(call.module for layer in layers[: top + 1] for call in layer[:1])
    return Projection(decoder, tower, count, reads, readers)


def decoder_name(model: nn.Module) -> str | None:
    """The name of the module that reads the whole sequence; None where none inside the model can be told."""
    try:
        decoder = model.get_decoder()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        decoder = None
    # Before transformers 5 some name none, or all that is below the head, with the tower in it.
    decoder = decoder if isinstance(decoder, nn.Module) else getattr(model, "model", model)
    decoder = next(
        (module for name in _INNER if isinstance(module := getattr(decoder, name, None), nn.Module)), decoder
    )
    return next((name for name, one in model.named_modules() if one is decoder and name), None)


_INNER = ("language_model", "text_model")


def _dense(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    """Pixels that differ everywhere: a picture of one colour would tell nothing where a model squares them."""
    pixels = inputs[PIXELS]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(pixels.shape, generator=generator, dtype=torch.float32) - 0.5
    return {PIXELS: drawn.to(pixels)}


@dataclass(frozen=True)
class _Call:
    """An attention call of the tower."""

    module: str
    positions: int
    """Of all tiles that ran together."""


def _layers(calls: Sequence[_Call]) -> list[list[_Call]]:
    """The calls by layer: those of one module, one after the other, are parts of one; [] where parts differ in sum."""
    layers: list[list[_Call]] = []
    for call in calls:
        if layers and layers[-1][0].module == call.module:
            layers[-1].append(call)
        else:
            layers.append([call])
    return layers if len({sum(one.positions for one in layer) for layer in layers}) == 1 else []


class _ReachedError(Exception):
    """The run is over: what was asked for is there."""


class _Alone(TorchFunctionMode):
    """Attention in which each position reads itself alone, and what is to be done at each call of it."""

    def __init__(self, at_call: Callable[[str, Tensor], Tensor], names: Mapping[int, str]) -> None:
        super().__init__()
        self._at_call = at_call
        self._names = names
        self._identities: dict[int, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            query, _, value = _fused(args, kwargs)
            if query.shape[-2] == value.shape[-2]:
                groups = query.shape[-3] // value.shape[-3]
                return self._met(value.repeat_interleave(groups, -3) if groups > 1 else value)
        if name in _PASSED:
            return args[0]
        result = func(*args, **kwargs)
        if name == "softmax" and result.ndim >= 3 and result.shape[-1] == result.shape[-2]:
            result = torch.eye(result.shape[-1], dtype=result.dtype, device=result.device).expand(result.shape)
            self._identities[id(result)] = result
        elif name == "to" and id(args[0]) in self._identities:
            self._identities[id(result)] = result
        elif name in ("matmul", "__matmul__", "bmm") and id(args[0]) in self._identities:
            result = self._met(result)
        return result

    def _met(self, values: Tensor) -> Tensor:
        return self._at_call(self._caller(), values)

    def _caller(self) -> str:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            owner = id(frame.f_locals.get("self"))
            if owner in self._names:
                return self._names[owner]
            frame = frame.f_back
        return ""


def _fused(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    given = {**dict(zip(("query", "key", "value"), args, strict=False)), **kwargs}
    return given["query"], given["key"], given["value"]


class _Run:
    """Runs of one input under such attention, each as far as it is needed."""

    def __init__(self, model: nn.Module, decoder: str, inputs: Mapping[str, Any]) -> None:
        self._model, self._decoder, self._inputs = model, decoder, dict(inputs)
        self._names = {id(module): name for name, module in model.named_modules()}

    def calls(self) -> list[_Call]:
        """The calls before the decoder's first."""
        result: list[_Call] = []

        def at_call(module: str, values: Tensor) -> Tensor:
            if self._is_decoder(module):
                raise _ReachedError
            result.append(_Call(module, values.shape[-2] * (values.shape[0] if values.ndim == 4 else 1)))
            return values

        with torch.inference_mode(False), torch.no_grad():
            self._run(at_call, self._inputs)
        return result

    def readers(self, parts: int) -> Tensor | None:
        """In the shape of the pixels, the position of the tower that reads each; None where several read one."""
        seen: list[Tensor] = []

        def at_call(module: str, values: Tensor) -> Tensor:
            seen.append(_by_position(values))
            if len(seen) == parts:
                raise _ReachedError
            return values

        with torch.inference_mode(False), torch.enable_grad():
            pixels = self._inputs[PIXELS].detach().clone().requires_grad_()
            self._run(at_call, {**self._inputs, PIXELS: pixels})
            channels = 1 if pixels.ndim == 2 else pixels.ndim - 3
            tensor = _decoded(torch.cat(seen), pixels, (channels,))
        return None if tensor is None else tensor.unsqueeze(channels).expand(pixels.shape)

    def reads(self, first: int, parts: int) -> tuple[tuple[int, ...], ...] | None:
        """For each position of the decoder those of the tower at these calls; None where it reads none of them."""
        leaves: list[Tensor] = []
        reached: list[Tensor] = []
        count = 0

        def at_call(module: str, values: Tensor) -> Tensor:
            nonlocal count
            if self._is_decoder(module):
                reached.append(_by_position(values))
                raise _ReachedError
            count += 1
            if not first < count <= first + parts:
                return values
            torch.set_grad_enabled(True)
            leaves.append(values.detach().clone().requires_grad_())
            return leaves[-1]

        with torch.inference_mode(False), torch.no_grad():
            self._run(at_call, self._inputs)
            if not reached or not leaves or not reached[0].requires_grad:
                return None
            with torch.enable_grad():
                return _read_by(reached[0], leaves)

    def _is_decoder(self, module: str) -> bool:
        return module == self._decoder or module.startswith(self._decoder + ".")

    def _run(self, at_call: Callable[[str, Tensor], Tensor], inputs: Mapping[str, Any]) -> None:
        try:
            with _Alone(at_call, self._names):
                called(self._model, inputs)
        except _ReachedError:
            pass


def _by_position(values: Tensor) -> Tensor:
    """position × number, of batch × head × position × width: one tile behind the other."""
    heads = values if values.ndim == 4 else values[None]
    return heads.transpose(1, 2).flatten(0, 1).flatten(1)


def _read_by(tokens: Tensor, leaves: Sequence[Tensor]) -> tuple[tuple[int, ...], ...] | None:
    """For each token the positions that it reads, all leaves counted one behind the other."""
    found: list[list[int]] = [[] for _ in range(len(tokens))]
    place, known = 0, False
    for leaf in leaves:
        tiles = leaf if leaf.ndim == 4 else leaf[None]
        readers = _decoded(tokens, leaf, (-3, -1))
        each = _of_each(tokens, leaf) if readers is None else None
        for position in range(tiles.shape[0] * tiles.shape[2]):
            if each is not None:
                for token in each[position]:
                    found[token].append(place + position)
            elif readers is not None and int(readers.reshape(-1)[position]) >= 0:
                found[int(readers.reshape(-1)[position])].append(place + position)
        place += tiles.shape[0] * tiles.shape[2]
        known = known or any(found)
    return tuple(tuple(one) for one in found) if known else None


def _decoded(outputs: Tensor, entered: Tensor, axes: tuple[int, ...]) -> Tensor | None:
    """The number of the output that reads each part of what entered, whose numbers lie along the axes; −1 for none.

    None where one part is read by several outputs.
    """
    read = _summed(outputs)
    digits = max(1, (len(outputs) - 1).bit_length())
    places = torch.arange(len(outputs), device=outputs.device)
    plain = _gradient(read.sum(), entered)
    size = plain.abs().amax(axes)
    number = torch.zeros_like(size, dtype=torch.long)
    for digit in range(digits):
        signs = 1 - 2 * (places >> digit & 1).to(read)
        by_digit = _gradient((signs * read).sum(), entered)
        negative = (by_digit * plain).sum(axes) < 0
        off = (by_digit - plain * torch.where(negative, -1.0, 1.0).to(plain)[_open(plain.ndim, axes)]).abs()
        if bool((off.amax(axes) > 1e-3 * size).any()):
            return None
        number += negative.long() << digit
    return torch.where(size > 0, number, -1).cpu()


def _of_each(outputs: Tensor, entered: Tensor) -> list[list[int]]:
    """The outputs that read each position of what entered, one after the other."""
    read = _summed(outputs)
    result: list[list[int]] = []
    for token in range(len(outputs)):
        seen = _gradient(read[token], entered).abs().amax((-3, -1)).flatten() > 0
        result = result or [[] for _ in range(len(seen))]
        for place in seen.nonzero()[:, 0].tolist():
            result[place].append(token)
    return result


def _summed(outputs: Tensor) -> Tensor:
    """A number for each output, in which none of its own cancels another."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(outputs.shape[1], generator=generator, dtype=torch.float64) + 0.5
    return outputs @ weights.to(outputs)


def _gradient(number: Tensor, entered: Tensor) -> Tensor:
    (tensor,) = torch.autograd.grad(number, entered, retain_graph=True, allow_unused=True)
    return torch.zeros_like(entered) if tensor is None else tensor


def _open(axes_in_all: int, axes: tuple[int, ...]) -> tuple[Any, ...]:
    """An index that puts the axes back which a sum over them took."""
    gone = {axis % axes_in_all for axis in axes}
    return tuple(None if index in gone else slice(None) for index in range(axes_in_all))
