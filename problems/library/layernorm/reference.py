"""LayerNorm: (x - mean) / sqrt(variance + eps) * weight + bias, over the last axis."""

import torch
import torch.nn.functional as F

EPS = 1e-5


@torch.no_grad()
def run(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, EPS)


def get_inputs(axes_and_scalars, device):
    """Rows differ in scale and offset, and one element a row carries much of the variance:
    statistics of another row or of half a row give a wrong answer."""
    rows, hidden = axes_and_scalars["rows"], axes_and_scalars["hidden"]
    x = torch.randn(rows, hidden, device=device) + torch.randn(rows, 1, device=device)
    outlier = (0.5 + 0.5 * torch.rand(rows, 1, device=device)) * hidden**0.5
    x.scatter_(1, torch.randint(hidden, (rows, 1), device=device), outlier)
    x *= torch.exp2(6 * torch.rand(rows, 1, device=device) - 3)
    weight = 1 + 0.5 * torch.randn(hidden, device=device)
    bias = 0.5 * torch.randn(hidden, device=device)
    return {
        "x": x.to(torch.bfloat16),
        "weight": weight.to(torch.bfloat16),
        "bias": bias.to(torch.bfloat16),
    }
