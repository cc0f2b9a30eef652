"""One query a sequence over its key-value cache, with grouped heads."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(query, key_cache, value_cache):
    attended = F.scaled_dot_product_attention(
        query.unsqueeze(2), key_cache, value_cache, enable_gqa=True
    )
    return attended.squeeze(2)


def get_inputs(axes_and_scalars, device):
    """Queries are twice as large as normalised ones: the attention is peaked, so that an average
    of the values is no answer, and the output does not shrink with the cache."""
    batch, length = axes_and_scalars["batch"], axes_and_scalars["length"]
    query_heads, kv_heads = axes_and_scalars["query_heads"], axes_and_scalars["kv_heads"]
    head_dim = axes_and_scalars["head_dim"]
    query = 2 * torch.randn(batch, query_heads, head_dim, device=device)
    key_cache = torch.randn(batch, kv_heads, length, head_dim, device=device)
    value_cache = torch.randn(batch, kv_heads, length, head_dim, device=device)
    return {
        "query": query.to(torch.bfloat16),
        "key_cache": key_cache.to(torch.bfloat16),
        "value_cache": value_cache.to(torch.bfloat16),
    }
