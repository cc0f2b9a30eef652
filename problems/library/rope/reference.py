"""Rotary position embedding: x * cos + rotate_half(x) * sin."""

import torch

BASE = 500000.0


@torch.no_grad()
def run(query, cos, sin):
    first, second = query.chunk(2, dim=-1)
    rotated = torch.cat((-second, first), dim=-1)
    return query * cos[:, None, :] + rotated * sin[:, None, :]


def get_inputs(axes_and_scalars, device):
    """The angles of consecutive positions from a random one on."""
    batch, sequence = axes_and_scalars["batch"], axes_and_scalars["sequence"]
    heads, head_dim = axes_and_scalars["heads"], axes_and_scalars["head_dim"]
    query = torch.randn(batch, sequence, heads, head_dim, device=device)
    even = torch.arange(0, head_dim, 2, device=device, dtype=torch.float32)
    frequencies = BASE ** -(even / head_dim)
    start = torch.randint(4096, (1,), device=device)
    positions = (start + torch.arange(sequence, device=device)).to(torch.float32)
    angles = torch.outer(positions, frequencies).repeat(1, 2)
    return {
        "query": query.to(torch.bfloat16),
        "cos": angles.cos().to(torch.bfloat16),
        "sin": angles.sin().to(torch.bfloat16),
    }
