"""Writes the files in `saved/`: `python -m tests.regression.write_saved`.

They stand for what users have on their disks. Files of a later version are added under names of their own.
"""

from __future__ import annotations

import attnx
from tests.regression.models import picture, subject
from tests.regression.on_paper import SENTENCES
from tests.regression.on_saved import FOLDER
from tests.regression.present import run_pronouns


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    _explanations()
    _studies()
    _paper()


def _explanations() -> None:
    both = ("gradient", "blankout")
    one = subject("classifier")
    text = "the unaffordable key to the cabinets"
    attnx.explain(one.model, one.processor, text, references=both).save(FOLDER / "text.safetensors")
    kept = attnx.explain(one.model, one.processor, ("the key", "is bad"), head="all", all_queries=True, layer=2)
    kept.save(FOLDER / "heads_and_maps.safetensors")
    one = subject("causal_lm")
    written = attnx.explain(one.model, one.processor, "the key to the cabinets", references="gradient")
    written.save(FOLDER / "decoder.safetensors")
    new = attnx.explain_generation(one.model, one.processor, "the key to", max_new_tokens=3, min_new_tokens=3)
    new.save(FOLDER / "generation.safetensors")
    one = subject("vit_classifier")
    seen = attnx.explain(one.model, one.processor, picture(), references=("blankout",), discard_ratio=0.5)
    seen.save(FOLDER / "image.safetensors")


def _studies() -> None:
    one = subject("classifier")
    texts = ["the key to the cabinets", "a plain, dull and bad film", "hello"]
    asked = {"methods": ("rollout", "flow"), "progress": False}
    _write("comparison.json", attnx.compare(one.model, one.processor, texts, **asked).to_json())
    measured = attnx.faithfulness(one.model, one.processor, texts, **asked, random=2, steps=3)
    _write("faithfulness.json", measured.to_json())
    atlas = attnx.head_atlas(one.model, one.processor, texts, against="gradient", progress=False)
    _write("head_atlas.json", atlas.to_json())


def _paper() -> None:
    one = subject("masked_lm")
    results = FOLDER / "pronouns.jsonl"
    results.unlink(missing_ok=True)
    run_pronouns(one.model, one.processor, SENTENCES, run_dir=results)


def _write(name: str, text: str) -> None:
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
