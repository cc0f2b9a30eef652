"""gelu(x @ weight^T + bias), with GELU's tanh form."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias), approximate="tanh")


def get_inputs(axes_and_scalars, device):
    """Weights as a trained layer has them: the product's elements are of size one."""
    rows, out_features = axes_and_scalars["rows"], axes_and_scalars["out_features"]
    in_features = axes_and_scalars["in_features"]
    x = torch.randn(rows, in_features, device=device)
    weight = torch.randn(out_features, in_features, device=device) * in_features**-0.5
    bias = 0.5 * torch.randn(out_features, device=device)
    return {
        "x": x.to(torch.bfloat16),
        "weight": weight.to(torch.bfloat16),
        "bias": bias.to(torch.bfloat16),
    }
