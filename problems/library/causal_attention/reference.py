"""Causal self-attention of every head."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def get_inputs(axes_and_scalars, device):
    """Queries are twice as large as normalised ones: the attention is peaked, so that an average
    of the values is no answer, and the output does not shrink with the sequence."""
    shape = [axes_and_scalars[axis] for axis in ("batch", "heads", "sequence", "head_dim")]
    query = 2 * torch.randn(shape, device=device)
    key = torch.randn(shape, device=device)
    value = torch.randn(shape, device=device)
    return {
        "query": query.to(torch.bfloat16),
        "key": key.to(torch.bfloat16),
        "value": value.to(torch.bfloat16),
    }
