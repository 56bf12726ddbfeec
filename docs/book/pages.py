"""Pages that are made when the site is built: the reference from docstrings, and what stands outside of docs/.

A hook of mkdocs. The reference has every public name; a name that stands in no group, or twice, ends the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery  # beside this file: mkdocs looks there
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import attnx

ROOT = Path(__file__).parents[2]
OUTSIDE = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
GROUPS = {
    "Explain": (
        "explain",
        "explain_generation",
        "alignment",
        "align",
        "explain_similarity",
        "explain_dataset",
        "counterfactual",
        "side_by_side",
    ),
    "Trust": ("recommend", "benchmark", "faithfulness", "compare", "head_atlas"),
    "Parts": ("capture", "AttentionTensor", "raw", "rollout", "flow", "to_networkx"),
    "Results": (
        *("Explanation", "GenerationExplanation", "Similarity", "Run", "SideBySide", "Recommendation"),
        *("BenchmarkTable", "Faithfulness", "Comparison", "HeadAtlas", "Alignment", "to_html"),
    ),
    "Families and models": ("Adapter", "list_adapters", "register_adapter", "load_demo", "AttnxError"),
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    made = {"reference.md": _reference()}
    made |= {name: _inside((ROOT / source).read_text(encoding="utf-8")) for name, source in OUTSIDE.items()}
    made["gallery.md"] = gallery.overview()
    made |= {f"gallery/{name}.html": page for name, page in gallery.pages().items()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def _reference() -> str:
    return "\n".join(["# Reference\n", *_sections()])


def _sections() -> Iterator[str]:
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(attnx.__all__):
        odd = set(grouped) ^ set(attnx.__all__)
        raise PluginError(f"the reference has every public name once; look at {', '.join(sorted(odd)) or 'twins'}")
    for title, names in GROUPS.items():
        yield f"## {title}\n"
        for name in names:
            yield f"::: attnx.{name}\n    options:\n      heading_level: 3\n"


def _inside(text: str) -> str:
    """Links of a page at the root as they are from docs/; what the site does not have is named without a link."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]+)\]\((?:README|LICENSE|CONTRIBUTING|CHANGELOG)[^)]*\)", r"\1", text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """GitHub begins a list anywhere; Markdown as it was defined needs an empty line before one."""
    return re.sub(r"^(?![-*] |\d+\. |\s|\||>|#)(.+)\n(?=[-*] |\d+\. )", r"\1\n\n", markdown, flags=re.MULTILINE)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """What lets search run from disk comes from here and not from another host."""
    return _own_worker(output, "../" * page.url.count("/"))


def on_post_template(output: str, **_: Any) -> str:
    return _own_worker(output, "/")


def _own_worker(output: str, root: str) -> str:
    own = f'<script src="{root}book/worker.js"></script>'
    return output.replace('<script src="https://unpkg.com/iframe-worker/shim"></script>', own)
