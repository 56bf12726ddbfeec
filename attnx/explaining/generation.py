"""Each generated token over the prompt and the earlier output, in one pass over the finished text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.explaining.seam import Request, explain_prepared
from attnx.explaining.settings import Normalization, Settings
from attnx.explaining.writing import Written, check_writer, read, write
from attnx.graph.asked import Head
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.inputs.first_token import with_first_token
from attnx.inputs.given import prepare_all
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.running.plan import LAST

NEW_TOKENS = 20


@checked
def explain_generation(
    model: nn.Module,
    tokenizer: Any,
    prompt: Any,
    *,
    max_new_tokens: int = NEW_TOKENS,
    continuation: str | None = None,
    methods: Sequence[str] | str | None = None,
    layer: int | None = None,
    head: Head | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    first_token: str | int | None = None,
    **generation: Any,
) -> GenerationExplanation:
    """What `model` looked at for each token that it writes behind `prompt`: a matrix generated × source per method.

    The model goes on greedily for at most `max_new_tokens`; other settings of `model.generate` are passed on
    (`do_sample=True, top_p=0.9`, `num_beams=4`). With a `continuation` nothing is generated: that text is explained.
    The finished text is then read once: the row of a token is the view of the position before it, which predicted it.
    `layer` is the last unless you choose; `first_token` puts a neutral token in front, as in `explain`. The
    model and its generation config are left exactly as they were.
    """
    model = unwrapped(model)
    adapter = adapter_for(model)
    check_writer(model)
    if head == "each":
        raise ChoiceError("head='each' has no place in a matrix generated × source; give one number, or mean, max, min")
    settings = Settings.of(
        methods,
        layer=LAST if layer is None else layer,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    if continuation is not None:
        if generation:
            raise InputError(f"{', '.join(generation)} steers generation, but a continuation is given: leave one out")
        written = _behind(model, tokenizer, read(adapter, model, tokenizer, prompt, continuation), first_token)
    else:
        first = _prompt(*prepare_all(adapter, model, tokenizer, prompt))
        first = first if first_token is None else with_first_token(model, tokenizer, first, first_token)
        written = write(model, tokenizer, first, max_new_tokens, generation)
    whole, queries = written.prepared, _queries(written)
    ids = whole.inputs["input_ids"].tolist()
    requests = [Request(whole, position=query, target=ids[query + 1]) for query in queries]
    found = dict(explain_prepared(model, tokenizer, requests, settings))
    steps = [found[number] for number in range(len(requests))]
    _check_causal(steps[0], model)
    return GenerationExplanation(
        positions=whole.positions,
        words=whole.words,
        prompt_length=written.prompt_length,
        layer=steps[0].layers[-1],
        relevance={name: np.stack([step.relevance[name][-1, :-1] for step in steps]) for name in steps[0].relevance},
        predictions=tuple(step.prediction for step in steps if step.prediction is not None),
        text=whole.text if isinstance(whole.text, str) else None,
        signed=steps[0].signed,
        digits=steps[0].digits,
        local=steps[0].local,
        about_answer=steps[0].about_answer,
        notes=tuple(dict.fromkeys(note for step in steps for note in step.notes)),
        provenance=_with_generation(_of_all(steps), generation),
    )


def _behind(model: nn.Module, tokenizer: Any, written: Written, first_token: str | int | None) -> Written:
    """The given text behind one more token, which counts to the prompt."""
    if first_token is None:
        return written
    prepared = with_first_token(model, tokenizer, written.prepared, first_token)
    return Written(prepared, written.prompt_length + len(prepared.positions) - len(written.prepared.positions))


def _of_all(steps: Sequence[Explanation]) -> dict[str, Any]:
    """What made all of them; what a method tells of its rows is of one step each."""
    first = steps[0].provenance
    told = [step.provenance.get("methods", {}) for step in steps]
    shared = {name: value for name, value in first.items() if name != "methods"}
    return {**shared, "steps": told} if any(told) else shared


def _with_generation(provenance: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` as JSON can have them; of a tensor or an object what it prints."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

    said = {name: plain(value) for name, value in generation.items()}
    return {**provenance, "settings": {**provenance["settings"], "generation": said}}


def _check_causal(step: Explanation, model: nn.Module) -> None:
    if not step.causal:
        raise CaptureError(
            f"{type(model).__name__} lets positions see later ones, so a pass over the finished text is not what it "
            "saw while it wrote; explain its text with attnx.explain"
        )


def _queries(written: Written) -> list[int]:
    """The positions that predicted the tokens behind the prompt: each the one before its token."""
    return list(range(written.prompt_length - 1, len(written.prepared.positions) - 1))


def _prompt(prepared: Sequence[Prepared], single: bool) -> Prepared:
    if not single:
        raise InputError(
            f"explain_generation goes on from one prompt, found a list of {len(prepared)}; give them in turn"
        )
    if "input_ids" not in prepared[0].inputs:
        raise InputError("explain_generation goes on from a text; what a model saw in an image is attnx.explain")
    return prepared[0]
