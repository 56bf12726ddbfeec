"""Any transformers model in memory, with its default attention: here a Llama with grouped heads and random weights.

python examples/your_own_model.py
"""

import torch
from transformers import LlamaConfig, LlamaModel

import attnx

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=100,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
)
model = LlamaModel(config).eval()
attention = attnx.capture(model, input_ids=torch.arange(12)[None])

print(attention)
print("implementation:", model.config._attn_implementation)
print("layer 1 is", attention.modules[0])
print("last position, last layer:", attnx.rollout(attention, layer=4, position=-1).numpy().round(3))
