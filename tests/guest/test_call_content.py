"""Variants of secret inputs: rows stay what their problem made them."""

from __future__ import annotations

import random

import torch

from sandbox.guest.call_content import copy_rolled, variant
from sandbox.guest.input_pool import InputSet


def _distinct_rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.stack([torch.randperm(64, generator=generator) for _ in range(9)]).float()


def test_custom_inputs_are_rolled_but_never_changed() -> None:
    rows = _distinct_rows()
    pool = [InputSet([rows, torch.arange(9)], [])]
    random_numbers = random.Random(1)
    for _ in range(50):
        content = variant(pool, random_numbers, changed=False)
        view = torch.empty_like(rows)
        copy_rolled(view, rows, content.shifts[0])
        assert content.mutations == []
        assert content.shifts[1] == 0
        assert all(len(row.unique()) == 64 for row in view)
        assert torch.equal(view, rows.roll(-content.shifts[0], 0))


def test_random_inputs_change_too() -> None:
    pool = [InputSet([_distinct_rows()], [])]
    content = variant(pool, random.Random(1), changed=True)
    index, positions, elements = content.mutations[0]
    assert index == 0
    assert len(positions) == len(elements) > 0
