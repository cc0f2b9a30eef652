"""x @ weight^T with one row."""

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(x, weight):
    return F.linear(x, weight)


def get_inputs(axes_and_scalars, device):
    """Weights as a trained layer has them: the product's elements are of size one."""
    in_features, out_features = axes_and_scalars["in_features"], axes_and_scalars["out_features"]
    x = torch.randn(1, in_features, device=device)
    weight = torch.randn(out_features, in_features, device=device) * in_features**-0.5
    return {"x": x.to(torch.bfloat16), "weight": weight.to(torch.bfloat16)}
