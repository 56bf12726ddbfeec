"""Which patches of an image each image token of a decoder reads, found by running the model.

Between a vision tower and a decoder stands a projector, which merges patches, shuffles them, drops tokens of the
tower's own, or takes an image in tiles. Instead of reading its code, attnx runs the model with attention in which every
position reads itself alone. Then nothing mixes positions but the projector: a change of one position of the tower
reaches exactly the image tokens that read it, and a change of a pixel exactly the position whose patch has it.

Who reads whom is found by gradients. The image tokens are numbered in binary, and for each digit all of them are summed
with the sign of that digit: where one token alone reads a position, the position's gradient is that of the plain sum,
but for the sign, and its signs spell the token's number. Nothing of the model is changed: a torch mode observes it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnx.adapters.model_config import called

PIXELS = "pixel_values"
_TOPS = 3
"""How many layers of a tower are tried from its end: decoders often read the last but one."""
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_dropout")
_INNER = ("language_model", "text_model")

AtCall: TypeAlias = Callable[[str, Tensor], Tensor]
"""(name of the module that attends, its values) → the values to go on with."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Which positions of a vision tower each position of the decoder is made of, and which pixels the tower's read."""

    decoder: str
    """The name of the module in which the text and the image are one sequence."""
    tower: tuple[str, ...]
    """The modules that attended over the image, from the pixels up to the last that the decoder reads."""
    patches: int
    """Positions of the tower, of all tiles and images together."""
    reads: tuple[tuple[int, ...], ...]
    """For each position of the decoder those of the tower; none for text."""
    readers: Tensor
    """In the shape of the pixel values: the position of the tower that reads each of them; −1 for none."""


_projections: weakref.WeakKeyDictionary[nn.Module, dict[Any, Projection | None]] = weakref.WeakKeyDictionary()


def find_projection(model: nn.Module, inputs: Mapping[str, Any]) -> Projection | None:
    """Of one input, a batch of one as the model takes it; None where image tokens are no fixed map of patches.

    It depends on the shapes alone, and is measured once for each.
    """
    if not isinstance(inputs.get(PIXELS), Tensor) or not isinstance(inputs.get("input_ids"), Tensor):
        return None
    ids = inputs["input_ids"].flatten().tolist()
    repeated = {token for token in set(ids) if ids.count(token) > 1}
    # What the map depends on: where the tokens of each id stand that occurs often, sizes and grids, and all shapes.
    key = (
        tuple(token if token in repeated else -1 for token in ids),
        *(
            (
                name,
                tuple(tensor.flatten().tolist()) if tensor.numel() < 64 and not tensor.is_floating_point() else (),
                tensor.shape,
            )
            for name, tensor in sorted(inputs.items())
            if isinstance(tensor, Tensor) and name != "input_ids"
        ),
    )
    projections = _projections.setdefault(model, {})
    if key not in projections:
        projections[key] = _measure(model, inputs)
    return projections[key]


def _measure(model: nn.Module, inputs: Mapping[str, Any]) -> Projection | None:
    decoder = decoder_name(model)
    if decoder is None:
        return None
    # Pixels that differ everywhere: an image of one colour would tell nothing where a model squares them.
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(inputs[PIXELS].shape, generator=generator, dtype=torch.float32) - 0.5
    run = _Run(model, decoder, {**inputs, PIXELS: noise.to(inputs[PIXELS])})
    # The calls of one module, one after the other, are the tiles of one layer.
    layers = [(module, [count for _, count in calls]) for module, calls in groupby(run.calls(), lambda call: call[0])]
    if len({sum(counts) for _, counts in layers}) != 1:
        return None
    readers = run.readers(len(layers[0][1]))
    for top in range(len(layers) - 1, max(-1, len(layers) - 1 - _TOPS), -1):
        reads = run.reads(sum(len(counts) for _, counts in layers[:top]), len(layers[top][1]))
        if reads is not None:
            break
    if readers is None or reads is None:
        return None
    tower = tuple(module for module, _ in layers[: top + 1])
    return Projection(decoder, tower, sum(layers[0][1]), reads, readers)


def decoder_name(model: nn.Module) -> str | None:
    """The name of the module that reads the whole sequence; None where none inside the model can be told."""
    try:
        decoder = model.get_decoder()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        decoder = None
    # Before transformers 5 some name none, or all that is below the head, with the tower in it.
    decoder = decoder if isinstance(decoder, nn.Module) else getattr(model, "model", model)
    inner = (getattr(decoder, name, None) for name in _INNER)
    decoder = next((module for module in inner if isinstance(module, nn.Module)), decoder)
    return next((name for name, module in model.named_modules() if module is decoder and name), None)


class _ReachedError(Exception):
    """The run is over: what was requested is there."""


class _DiagonalAttention(TorchFunctionMode):
    """Attention in which each position reads itself alone, with a function that is called at each."""

    def __init__(self, at_call: AtCall, names: Mapping[int, str]) -> None:
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
            arguments = {**dict(zip(("query", "key", "value"), args, strict=False)), **kwargs}
            query, value = arguments["query"], arguments["value"]
            if query.shape[-2] == value.shape[-2]:
                groups = query.shape[-3] // value.shape[-3]
                return self._at_call(self._caller(), value.repeat_interleave(groups, -3) if groups > 1 else value)
        if name in _DROPOUTS:
            return args[0]
        result = func(*args, **kwargs)
        if name == "softmax" and result.ndim >= 3 and result.shape[-1] == result.shape[-2]:
            result = torch.eye(result.shape[-1], dtype=result.dtype, device=result.device).expand(result.shape)
            self._identities[id(result)] = result
        elif name == "to" and id(args[0]) in self._identities:
            self._identities[id(result)] = result
        elif name in ("matmul", "__matmul__", "bmm") and id(args[0]) in self._identities:
            result = self._at_call(self._caller(), result)
        return result

    def _caller(self) -> str:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            owner = id(frame.f_locals.get("self"))
            if owner in self._names:
                return self._names[owner]
            frame = frame.f_back
        return ""


class _Run:
    """Runs of one input under such attention, each as far as it is needed."""

    def __init__(self, model: nn.Module, decoder: str, inputs: Mapping[str, Any]) -> None:
        self._model, self._decoder, self._inputs = model, decoder, dict(inputs)
        self._names = {id(module): name for name, module in model.named_modules()}

    def calls(self) -> list[tuple[str, int]]:
        """The module and the positions, of all tiles together, of the attention calls before the decoder's first."""
        result: list[tuple[str, int]] = []

        def at_call(module: str, values: Tensor) -> Tensor:
            if self._is_decoder(module):
                raise _ReachedError
            result.append((module, values.shape[-2] * (values.shape[0] if values.ndim == 4 else 1)))
            return values

        with torch.inference_mode(False), torch.no_grad():
            self._run(at_call, self._inputs)
        return result

    def readers(self, tiles: int) -> Tensor | None:
        """In the shape of the pixels, the position of the tower that reads each; None where several read one."""
        seen: list[Tensor] = []

        def at_call(module: str, values: Tensor) -> Tensor:
            seen.append(_by_position(values))
            if len(seen) == tiles:
                raise _ReachedError
            return values

        with torch.inference_mode(False), torch.enable_grad():
            pixels = self._inputs[PIXELS].detach().clone().requires_grad_()
            self._run(at_call, {**self._inputs, PIXELS: pixels})
            channels = 1 if pixels.ndim == 2 else pixels.ndim - 3
            tensor = _readers(torch.cat(seen), pixels, (channels,))
        return None if tensor is None else tensor.unsqueeze(channels).expand(pixels.shape)

    def reads(self, first: int, tiles: int) -> tuple[tuple[int, ...], ...] | None:
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
            if not first < count <= first + tiles:
                return values
            torch.set_grad_enabled(True)
            leaves.append(values.detach().clone().requires_grad_())
            return leaves[-1]

        with torch.inference_mode(False), torch.no_grad():
            self._run(at_call, self._inputs)
            if not reached or not leaves or not reached[0].requires_grad:
                return None
            with torch.enable_grad():
                readers = [readers for leaf in leaves for readers in _readers_of_positions(reached[0], leaf)]
        reads: list[list[int]] = [[] for _ in range(len(reached[0]))]
        for position, tokens in enumerate(readers):
            for token in tokens:
                reads[token].append(position)
        return tuple(map(tuple, reads)) if any(reads) else None

    def _is_decoder(self, module: str) -> bool:
        return module == self._decoder or module.startswith(self._decoder + ".")

    def _run(self, at_call: AtCall, inputs: Mapping[str, Any]) -> None:
        try:
            with _DiagonalAttention(at_call, self._names):
                called(self._model, inputs)
        except _ReachedError:
            pass


def _by_position(values: Tensor) -> Tensor:
    """position × number, of batch × head × position × width: one tile behind the other."""
    heads = values if values.ndim == 4 else values[None]
    return heads.transpose(1, 2).flatten(0, 1).flatten(1)


def _readers_of_positions(tokens: Tensor, leaf: Tensor) -> list[list[int]]:
    """The tokens that read each position of a leaf, (batch ×) head × position × width."""
    readers = _readers(tokens, leaf, (-3, -1))
    if readers is not None:
        return [[token] if token >= 0 else [] for token in readers.flatten().tolist()]
    # A position is read by several tokens: one after the other.
    outputs = _weighted_sums(tokens)
    result: list[list[int]] = [[] for _ in range(leaf.shape[-2] * (leaf.shape[0] if leaf.ndim == 4 else 1))]
    for token in range(len(tokens)):
        read = _gradient(outputs[token], leaf).abs().amax((-3, -1)).flatten() > 0
        for position in read.nonzero()[:, 0].tolist():
            result[position].append(token)
    return result


def _readers(tokens: Tensor, leaf: Tensor, axes: tuple[int, ...]) -> Tensor | None:
    """The number of the token that reads each part of a leaf, whose numbers lie along the axes; −1 for none.

    None where one part is read by several tokens.
    """
    outputs = _weighted_sums(tokens)
    numbers = torch.arange(len(tokens), device=tokens.device)
    plain = _gradient(outputs.sum(), leaf)
    size = plain.abs().amax(axes, keepdim=True)
    reader = torch.zeros_like(size, dtype=torch.long)
    for digit in range(max(1, (len(tokens) - 1).bit_length())):
        signs = 1 - 2 * (numbers >> digit & 1).to(outputs)
        gradient = _gradient((signs * outputs).sum(), leaf)
        negative = (gradient * plain).sum(axes, keepdim=True) < 0
        difference = (gradient - torch.where(negative, -plain, plain)).abs().amax(axes, keepdim=True)
        if bool((difference > 1e-3 * size).any()):
            return None
        reader += negative.long() << digit
    return torch.where(size > 0, reader, -1).squeeze(axes).cpu()


def _weighted_sums(tokens: Tensor) -> Tensor:
    """A number for each token, in which none of its own numbers cancels another."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(tokens.shape[1], generator=generator, dtype=torch.float64) + 0.5
    return tokens @ weights.to(tokens)


def _gradient(output: Tensor, leaf: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(output, leaf, retain_graph=True, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient
