"""Softmax over the last axis."""

import math

import torch


@torch.no_grad()
def run(logits):
    return torch.softmax(logits, dim=-1)


def get_inputs(axes_and_scalars, device):
    """Rows differ in offset, and one element a row weighs about as much as all the others
    together: the maximum or the sum over a part of a row gives a wrong answer."""
    rows, columns = axes_and_scalars["rows"], axes_and_scalars["columns"]
    logits = torch.randn(rows, columns, device=device)
    peak = math.log(columns) + torch.rand(rows, 1, device=device)
    logits.scatter_(1, torch.randint(columns, (rows, 1), device=device), peak)
    logits += 8 * torch.randn(rows, 1, device=device)
    return {"logits": logits.to(torch.bfloat16)}
