"""logsumexp(logits) - logits[target] of every row, in float32."""

import math

import torch
import torch.nn.functional as F


@torch.no_grad()
def run(logits, targets):
    return F.cross_entropy(logits.to(torch.float32), targets, reduction="none")


def get_inputs(axes_and_scalars, device):
    """Rows differ in offset, and one element a row weighs about as much as all the others
    together: the maximum or the sum over a part of a row gives a wrong answer."""
    rows, vocabulary = axes_and_scalars["rows"], axes_and_scalars["vocabulary"]
    logits = torch.randn(rows, vocabulary, device=device)
    peak = math.log(vocabulary) + 2 * torch.rand(rows, 1, device=device)
    logits.scatter_(1, torch.randint(vocabulary, (rows, 1), device=device), peak)
    logits += 8 * torch.randn(rows, 1, device=device)
    targets = torch.randint(vocabulary, (rows,), device=device)
    return {"logits": logits.to(torch.bfloat16), "targets": targets}
