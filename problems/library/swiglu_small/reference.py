"""SwiGLU: silu(gate) * up."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(gate, up):
    return F.silu(gate) * up
