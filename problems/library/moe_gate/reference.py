"""The gate of a mixture of experts: softmax, the top 8, renormalised."""

import torch

TOP_K = 8


@torch.no_grad()
def run(logits):
    probabilities = torch.softmax(logits.to(torch.float32), dim=-1)
    weights, indices = torch.topk(probabilities, TOP_K, dim=-1)
    return weights / weights.sum(-1, keepdim=True), indices.to(torch.int32)


def get_inputs(axes_and_scalars, device):
    """The nine largest logits of a row are exact multiples of 1/16, all different, above all
    others: the choice and its order have one answer."""
    tokens, experts = axes_and_scalars["tokens"], axes_and_scalars["experts"]
    logits = torch.randn(tokens, experts, device=device).clamp(max=1.9)
    steps = torch.randint(1, 9, (tokens, TOP_K + 1), device=device)
    ladder = 2 + steps.cumsum(-1) / 16
    order = torch.rand(tokens, experts, device=device).argsort(-1)
    logits.scatter_(1, order[:, : TOP_K + 1], ladder)
    return {"logits": logits.to(torch.bfloat16)}
