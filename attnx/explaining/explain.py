"""The product in one line: `explain(model, tokenizer, text)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from torch import nn

from attnx.arguments import checked
from attnx.explaining.call import Call, Options
from attnx.graph.asked import Head
from attnx.inputs.spans import AskedSpans
from attnx.methods.normalization import Normalization
from attnx.results.explanation import Explanation
from attnx.results.explanations import Explanations
from attnx.results.recommendation import Recommendation
from attnx.running.given_model import model_and_processor, takes_pipelines

if TYPE_CHECKING:
    from attnx.references.registry import AskedReferences


@overload
def explain(model: nn.Module, tokenizer: Any, text: list[Any], **options: Unpack[Options]) -> Explanations: ...


@overload
def explain(
    model: nn.Module, tokenizer: Any, text: str | tuple[str, str], **options: Unpack[Options]
) -> Explanation: ...


@overload
def explain(model: Any, tokenizer: Any = None, text: Any = None, **options: Unpack[Options]) -> Any: ...


@takes_pipelines("text")
@checked
def explain(
    model: Any,
    tokenizer: Any = None,
    text: Any = None,
    *,
    methods: Sequence[str] | str | Recommendation | None = None,
    position: int | Literal["mean", "entities", "every"] | list[int | None] | None = None,
    layer: int | str | None = None,
    head: Head | None = None,
    target: Any = None,
    references: AskedReferences | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    discard: float = 0.0,
    first_token: str | int | None = None,
    spans: AskedSpans | Sequence[AskedSpans] | None = None,
    target_text: Any = None,
    truncate: bool = False,
    maps: bool = False,
    interpolate: bool = False,
    within: str = "",
    batch_size: int | None = None,
    progress: bool = True,
) -> Explanation | Explanations:
    """What `model` looked at in `text`, as an `Explanation`; for a list of texts, a list of them.

    `text` is a text, a pair of texts, (text, [choice, …]), an image, or what the tokenizer made of them; `tokenizer` is
    an image processor for an image. Instead of both, `model` may be a pipeline of transformers, or the directory or hub
    id of a saved model: `explain(pipeline, text)`. `methods` are raw, rollout and flow; of a text so long that flow
    would take minutes it is left out, unless you name it. What `recommend` gave may stand there, too: what holds is
    computed, the best first. `position` is the position whose view is explained: by default CLS, the mask of a masked
    language model, or the last token of a decoder; "mean" explains the mean of all, "entities" gives a list: each that
    a token classifier finds. `layer` (from 1) keeps one layer; `head` is a number from 0, "each", or how heads are
    merged ("mean", "max", "min"). `target` is the class or token to explain: by default the prediction.
    `references` measures on the model itself what each position does for the target (see `attnx.references`); with a
    pair as target, what it does for the first against the second. For a list of texts `position` and `target` may be
    lists, too.

    In a decoder early positions are seen by every later one. `normalize="prefix"` takes that out of rollout and flow;
    it is on for causal models ("auto"), `"receptive_field"` and `"column"` are other ways, and None leaves it out.
    `drop_sink` takes out what goes to the first token. `first_token` puts a neutral one in front of the text, "begin"
    for the tokenizer's begin token: another input, which notes and provenance say. `spans` names parts of the text as
    further units: name → (first character, one past the last) or the part itself, a list of parts, "sentences" or
    "lines". `discard` drops that share of each layer's lowest weights before they are rolled out; `interpolate` lets a
    vision model read images of another size than it was built for. `maps` keeps the rows of all positions, not only of
    the explained one. `within` picks one stack of a model that has several, by the beginning of its modules' names.
    `batch_size` is the most inputs of a list that run together, by default as many as make 2,048 positions;
    `progress` shows how far it is where that takes more than a moment. The model and the tokenizer are left exactly as
    they were.

    Of an encoder–decoder `text` is the source and `target_text` what is written of the output so far: the next token is
    explained over both, and `e.shares` says how much is from each. Without it that is the first token that the model
    writes; `position` is another one of the output, and "every" gives a list, one for each. `layer` may be a name
    there: "cross 2" (see `docs/encoder-decoders.md`).

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the keys to the cabinet")
    >>> print(e.prediction)
    plural (0.998)
    >>> e.top(1)[0].text
    'keys'
    """
    model, tokenizer = model_and_processor(model, tokenizer)
    call = Call.of(
        model,
        tokenizer,
        text,
        methods=methods,
        position=position,
        layer=layer,
        head=head,
        target=target,
        references=references,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
        discard=discard,
        first_token=first_token,
        spans=spans,
        target_text=target_text,
        truncate=truncate,
        maps=maps,
        interpolate=interpolate,
        within=within,
        batch_size=batch_size,
        progress=progress,
    )
    explanations = call.in_order()
    return explanations[0] if call.single else Explanations(explanations)
