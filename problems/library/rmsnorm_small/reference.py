"""RMSNorm: x / sqrt(mean(x^2) + eps) * weight, over the last axis."""

import torch

EPS = 1e-6


@torch.no_grad()
def run(hidden_states, weight):
    x = hidden_states.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    normalised = x * torch.rsqrt(variance + EPS)
    return weight * normalised.to(hidden_states.dtype)


def get_inputs(axes_and_scalars, device):
    """Rows differ in scale and offset, and one element a row carries much of the square sum:
    statistics of another row or of half a row give a wrong answer."""
    rows, hidden = axes_and_scalars["rows"], axes_and_scalars["hidden"]
    x = torch.randn(rows, hidden, device=device) + torch.randn(rows, 1, device=device)
    outlier = (0.5 + 0.5 * torch.rand(rows, 1, device=device)) * hidden**0.5
    x.scatter_(1, torch.randint(hidden, (rows, 1), device=device), outlier)
    x *= torch.exp2(6 * torch.rand(rows, 1, device=device) - 3)
    weight = 1 + 0.5 * torch.randn(hidden, device=device)
    return {"hidden_states": x.to(torch.bfloat16), "weight": weight.to(torch.bfloat16)}
