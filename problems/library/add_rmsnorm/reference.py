"""h = hidden_states + residual; RMSNorm(h) * weight, and h itself."""

import torch

EPS = 1e-6


@torch.no_grad()
def run(hidden_states, residual, weight):
    new_residual = hidden_states + residual
    h = new_residual.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    normalised = h * torch.rsqrt(variance + EPS)
    return weight * normalised.to(hidden_states.dtype), new_residual


def get_inputs(axes_and_scalars, device):
    """Rows differ in scale and offset, and one element a row carries much of the square sum:
    statistics of another row or of half a row give a wrong answer."""
    rows, hidden = axes_and_scalars["rows"], axes_and_scalars["hidden"]
    scale = torch.exp2(6 * torch.rand(rows, 1, device=device) - 3)
    x = torch.randn(rows, hidden, device=device)
    residual = torch.randn(rows, hidden, device=device) + torch.randn(rows, 1, device=device)
    outlier = (0.5 + 0.5 * torch.rand(rows, 1, device=device)) * hidden**0.5
    residual.scatter_(1, torch.randint(hidden, (rows, 1), device=device), outlier)
    weight = 1 + 0.5 * torch.randn(hidden, device=device)
    return {
        "hidden_states": (x * scale).to(torch.bfloat16),
        "residual": (residual * scale).to(torch.bfloat16),
        "weight": weight.to(torch.bfloat16),
    }
