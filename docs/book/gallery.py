"""The gallery: results as real pages of attnx, each with the lines that make it. `pages()` runs them.

An entry's code ends with a page in `html`. Those that need a checkpoint which does not ship with attnx are left out
where it is not there, and the gallery says so.
"""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LARGEST = 300_000
"""Bytes of a page in the gallery."""


@dataclass(frozen=True)
class Entry:
    name: str
    title: str
    told: str
    """What there is to see, in one or two sentences."""
    code: str
    needs: str = ""
    """A folder below ATTNX_ASSETS."""
    height: int = 620

    @property
    def lines(self) -> str:
        return textwrap.dedent(self.code).strip()

    @property
    def there(self) -> bool:
        return not self.needs or (Path(os.environ.get("ATTNX_ASSETS", "")) / self.needs).is_dir()


ENTRIES = (
    Entry(
        "classifier",
        "One sentence, every layer",
        "The embedded model says *plural*, and the value path says why: *keys*. Click a word to see its own row.",
        """
        import attnx

        model, tokenizer = attnx.load_demo()
        text = "the keys to the cabinet"
        e = attnx.explain(model, tokenizer, text, all_queries=True, references=["lrp", "blankout"])
        html = e.to_html()
        """,
    ),
    Entry(
        "counterfactual",
        "What if it said something else?",
        "One word is replaced, and the changed text is explained for the same answer.",
        """
        import attnx

        model, tokenizer = attnx.load_demo()
        e = attnx.explain(model, tokenizer, "the key to the cabinets")
        html = attnx.counterfactual(model, tokenizer, e, {"key": "keys"}).to_html()
        """,
    ),
    Entry(
        "decoder",
        "A decoder that looks something up",
        "The text asks what stood behind k1. The answer v2 can come from one place only.",
        """
        import attnx
        from attnx.demo_models.recall import load_demo

        model, tokenizer = load_demo()
        html = attnx.explain(model, tokenizer, "k3 v7 k1 v2 k8 v5 k1", all_queries=True).to_html()
        """,
    ),
    Entry(
        "written",
        "Text that a decoder wrote",
        "Click a written token: prompt and earlier output are coloured by what it drew from.",
        """
        import attnx
        from attnx.demo_models.recall import load_demo

        model, tokenizer = load_demo()
        prompts = "k3 v7 k1 v2 k8 v5 k1"
        html = attnx.explain_generation(model, tokenizer, prompts, continuation=" v2 k8 v5").to_html()
        """,
    ),
    Entry(
        "alignment",
        "From source to output",
        "A small encoder–decoder rewrites dates. Click a written word to see which word of the source it is from.",
        """
        import attnx
        from attnx.demo_models.dates import load_demo
        from attnx.demo_models.dates import generate

        model, tokenizer = load_demo()
        dates = generate(5, seed=1)
        sources, written = [one.text for one in dates], [one.written for one in dates]
        html = attnx.align(model, tokenizer, sources, written, progress=False).to_html()
        """,
    ),
    Entry(
        "picture",
        "A picture",
        "The class hangs on one planted patch of 64. Rollout finds it; the last layer's raw attention often does not.",
        """
        import attnx
        from attnx.demo_models.planted_patch import generate, load_demo

        model, processor = load_demo()
        html = attnx.explain(model, processor, generate(1)[0].image).to_html()
        """,
    ),
    Entry(
        "truth",
        "Which method finds what decides?",
        "Methods and references held against an answer that is known, beside chance and fixed orders.",
        """
        import attnx

        few = {"methods": ["raw", "rollout", "flow"], "references": ["lrp", "gradient"]}
        html = attnx.benchmark(suites="recall", rows=30, **few, progress=False).to_html()
        """,
    ),
    Entry(
        "recommendation",
        "Which method holds on these texts?",
        "What each explainer puts first is removed. The answer falls more than by chance, or it does not.",
        """
        import attnx
        from attnx.demo_models.verb_number_data import generate

        model, tokenizer = attnx.load_demo()
        texts = [one.text for one in generate(16, seed=1)]
        few = {"methods": ["raw", "rollout"], "references": ["lrp", "gradient"]}
        html = attnx.recommend(model, tokenizer, texts, **few, progress=False).to_html()
        """,
    ),
    Entry(
        "agreement",
        "Agreement, layer by layer",
        "How far raw attention, rollout and flow rank words as gradients and blank-out do.",
        """
        import attnx
        from attnx.demo_models.verb_number_data import generate

        model, tokenizer = attnx.load_demo()
        html = attnx.compare(model, tokenizer, [one.text for one in generate(16, seed=1)], progress=False).to_html()
        """,
    ),
    Entry(
        "heads",
        "Which head does it?",
        "Every head by what it carries to the answer's position, and by how far it agrees with blank-out.",
        """
        import attnx
        from attnx.demo_models.verb_number_data import generate

        model, tokenizer = attnx.load_demo()
        texts = [one.text for one in generate(16, seed=1)]
        html = attnx.head_atlas(model, tokenizer, texts, references="blankout", progress=False).to_html()
        """,
    ),
    Entry(
        "sentiment",
        "A review",
        "DistilBERT on SST-2: the words for and against *positive*, by the value path.",
        """
        import os, attnx
        from attnx.pipeline.loading import load

        model, tokenizer = load(os.environ["ATTNX_ASSETS"] + "/models/distilbert-sst2")
        text = "it is not a great film, but it is never dull and often very funny"
        html = attnx.explain(model, tokenizer, text, references=["lrp", "integrated_gradients"]).to_html()
        """,
        needs="models/distilbert-sst2",
    ),
    Entry(
        "pronoun",
        "Whose book?",
        "A masked pronoun: what tells *her* from *his* is the name.",
        """
        import os, attnx
        from attnx.pipeline.loading import load

        model, tokenizer = load(os.environ["ATTNX_ASSETS"] + "/models/minilm-mlm")
        text = "the author talked to sara about [MASK] book ."
        html = attnx.explain(model, tokenizer, text, target=("her", "his")).to_html()
        """,
        needs="models/minilm-mlm",
    ),
)


@cache
def pages() -> dict[str, str]:
    """Name → page, of all entries that can be made here."""
    return {entry.name: page(entry) for entry in ENTRIES if entry.there}


def page(entry: Entry) -> str:
    found: dict[str, object] = {}
    exec(compile(entry.lines, f"gallery, {entry.name}", "exec"), found)
    html = found["html"]
    assert isinstance(html, str)
    if len(html.encode()) > LARGEST:
        raise ValueError(f"{entry.name}: the page has {len(html.encode()):,} bytes, more than {LARGEST:,}")
    return html


def overview() -> str:
    """The gallery's own page, in Markdown."""
    made = pages()
    lines = [
        "# Gallery",
        "",
        "Each of these is a page that attnx wrote, with the lines that made it. They need no network.",
        "",
    ]
    for entry in ENTRIES:
        if entry.name in made:
            address = f"gallery/{entry.name}.html"
            frame = f'<iframe src="{address}" title="{entry.title}" loading="lazy" height="{entry.height}"></iframe>'
            lines += [f"## {entry.title}", "", entry.told, "", "```python", entry.lines, "```", ""]
            lines += [f'<div class="gallery">{frame}<a href="{address}">By itself</a></div>', ""]
    left_out = [entry.title for entry in ENTRIES if entry.name not in made]
    if left_out:
        lines += [f"Not made here, for their checkpoints are not there: {', '.join(left_out)}.", ""]
    return "\n".join(lines)
