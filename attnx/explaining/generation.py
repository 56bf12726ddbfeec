"""Each generated token over the prompt and the earlier output, in one pass over the finished text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.explaining.call import asked_references
from attnx.explaining.names import check_no_reference
from attnx.explaining.runner_up import runners_up
from attnx.explaining.seam import Request, explain_prepared
from attnx.explaining.settings import DEFAULT_REFERENCES, Settings
from attnx.explaining.steps import joined
from attnx.explaining.writing import Written, check_writer, read, write
from attnx.graph.asked import Head
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.inputs.first_token import with_first_token
from attnx.inputs.given import prepare_all
from attnx.inputs.spans import AskedSpans, with_spans
from attnx.methods.normalization import Normalization
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.running.given_model import model_and_processor, takes_pipelines
from attnx.running.plan import LAST

if TYPE_CHECKING:
    from attnx.references.registry import AskedReferences

NEW_TOKENS = 20

EACH = "each"
"""How a caller asks for every layer."""


@takes_pipelines("prompt")
@checked
def explain_generation(
    model: Any,
    tokenizer: Any = None,
    prompt: Any = None,
    *,
    max_new_tokens: int = NEW_TOKENS,
    continuation: str | None = None,
    methods: Sequence[str] | str | None = None,
    references: AskedReferences | None = None,
    contrast: bool = False,
    layer: int | str | None = None,
    head: Head | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    first_token: str | int | None = None,
    spans: AskedSpans | None = None,
    truncate: bool = False,
    progress: bool = True,
    **generation: Any,
) -> Any:
    """What each token that `model` writes behind `prompt` drew from: a matrix generated × source for each name.

    The model goes on greedily for at most `max_new_tokens`; other settings of `model.generate` are passed on
    (`do_sample=True, top_p=0.9`, `num_beams=4`). With a `continuation` nothing is generated: that text is explained.
    The finished text is then read once: the row of a token is the view of the position before it, which predicted it.
    `methods` and `references` are those of `explain`, value path first where you choose none; all tokens share one run,
    and what knows the answer goes back through it once for each. With `contrast` it does so once more, for each token
    against its runner-up. `layer` is the last unless you choose, or "each"; `first_token` puts a neutral token in
    front, and `spans` names parts of the prompt, as in `explain`. `progress` shows how far it is where that takes more
    than a moment. Of an encoder–decoder the prompt is the source, rows are over it and what was written before, and a
    layer has a name ("cross 2"); `truncate` cuts a source that is too long.
    Of a model that reads both the prompt may be {"image": picture, "text": …}: rows are over patches, too, and
    `g.step(0).overlay()` lays them over the picture.

    Of a list of prompts it is a list, a `GenerationExplanation` each; a list of messages is one chat. Instead of model
    and tokenizer a pipeline or the name of a saved model may be given, as in `explain`. The model and its
    generation config are left exactly as they were.

    >>> from attnx.tasks.recall.checkpoint import load_demo
    >>> model, tokenizer = load_demo()
    >>> g = explain_generation(model, tokenizer, "k3 v7 k1 v2 k8 v5 k1", max_new_tokens=1, methods="rollout")
    >>> g.generated
    ('v2',)
    """
    model, tokenizer = model_and_processor(model, tokenizer)
    model = unwrapped(model)
    check_writer(model)
    if head == EACH:
        raise ChoiceError("head='each' has no place in a matrix generated × source; give one number, or mean, max, min")
    check_no_reference(methods)
    settings = Settings.of(
        methods,
        layer=LAST if layer is None else None if layer == EACH else layer,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    nobody_chose = references is None and settings.methods is None
    call = _Call(
        model,
        tokenizer,
        settings,
        asked_references(DEFAULT_REFERENCES if nobody_chose else references),
        chosen=not nobody_chose,
        contrast=contrast,
        first_token=first_token,
        spans=spans,
        truncate=truncate,
        progress=progress,
    )
    if continuation is not None:
        if generation:
            raise InputError(f"{', '.join(generation)} steers generation, but a continuation is given: leave one out")
        return call.explained(call.read(prompt, continuation), {})
    prompts, single = prepare_all(adapter_for(model), model, tokenizer, prompt, truncate=truncate)
    found = [call.explained(one, generation) for one in call.written(prompts, max_new_tokens, generation)]
    return found[0] if single else found


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of `explain_generation`, read."""

    model: nn.Module
    tokenizer: Any
    settings: Settings
    references: Mapping[str, Mapping[str, Any]]
    chosen: bool
    contrast: bool
    first_token: str | int | None
    spans: AskedSpans | None
    truncate: bool
    progress: bool

    def written(self, prompts: Sequence[Prepared], most: int, generation: Mapping[str, Any]) -> Iterator[Written]:
        """What the model writes behind each prompt."""
        for one in prompts:
            if "input_ids" not in one.inputs and not one.rewrites:
                raise InputError(
                    "explain_generation goes on from a text, or writes one from sound; what a model saw in an image is "
                    "attnx.explain"
                )
            first = self._begun(one)
            first = first if self.spans is None else with_spans(first, self.spans)
            words = getattr(self.tokenizer, "tokenizer", self.tokenizer)
            yield write(self.model, words, first, most, generation, progress=self.progress)

    def read(self, prompt: Any, continuation: str) -> Written:
        """The text that is there already; a token in front counts to the prompt."""
        written = read(
            adapter_for(self.model), self.model, self.tokenizer, prompt, continuation, truncate=self.truncate
        )
        prepared = self._begun(written.prepared)
        length = written.prompt_length + len(prepared.positions) - len(written.prepared.positions)
        if self.spans is not None:
            prepared = with_spans(prepared, self.spans, prompt=(written.prompt_end, length))
        return Written(prepared, length)

    def _begun(self, prepared: Prepared) -> Prepared:
        first = self.first_token
        return prepared if first is None else with_first_token(self.model, self.tokenizer, prepared, first)

    def explained(self, written: Written, generation: Mapping[str, Any]) -> GenerationExplanation:
        whole, queries = written.prepared, _queries(written)
        ids = whole.written_ids
        requests = [Request(whole, position=query, target=ids[query + 1]) for query in queries]
        if self.contrast:
            rivals = runners_up(self.model, self.tokenizer, whole, queries)
            requests += [
                Request(whole, position=query, target=(ids[query + 1], rival))
                for query, rival in zip(queries, rivals, strict=True)
            ]
        found = dict(
            explain_prepared(
                self.model,
                self.tokenizer,
                requests,
                self.settings,
                references=self.references,
                chosen=self.chosen,
                progress=self.progress,
            )
        )
        every = [found[number] for number in range(len(requests))]
        _check_causal(every[0], self.model)
        return joined(whole, written.prompt_length, every[: len(queries)], every[len(queries) :], generation)


def _check_causal(step: Explanation, model: nn.Module) -> None:
    if not step.causal and not step.streams:
        raise CaptureError(
            f"{type(model).__name__} lets positions see later ones, so a pass over the finished text is not what it "
            "saw while it wrote; explain its text with attnx.explain"
        )


def _queries(written: Written) -> list[int]:
    """The positions that predicted the tokens behind the prompt: each the one before its token."""
    return list(range(written.prompt_length - 1, written.prepared.text_length - 1))
