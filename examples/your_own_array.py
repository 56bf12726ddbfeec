"""Rollout and flow on attention from anywhere: any layer × head × n × n array will do.

python examples/your_own_array.py
"""

import numpy as np

import attnx

rng = np.random.default_rng(0)
attention = rng.dirichlet(np.full(8, 0.2), size=(6, 4, 8))  # 6 layers, 4 heads, 8 positions; rows sum to 1

rollout = attnx.rollout(attention, layer=6, position=0)
flow = attnx.flow(attention, layer=6, position=0)
print("position   rollout   flow")
for position in np.argsort(-rollout):
    print(f"{position:>8}   {rollout[position]:.4f}   {flow[position]:.4f}")
