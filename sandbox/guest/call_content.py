"""What the inputs of one timed call are: a secret set as it is, or a variant of one."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from sandbox.guest.input_pool import InputSet

_MUTATIONS = 4


@dataclass(frozen=True)
class Content:
    """What one call's inputs are, written alike for both sides."""

    source: InputSet
    original: bool
    """The set as it is, whose expected output is known; else a variant of it."""
    shifts: list[int]
    """Rows by which each input is rolled; 0 for what cannot be."""
    mutations: list[tuple[int, torch.Tensor, torch.Tensor]]
    """Input, flat positions, new elements."""


def original(source: InputSet) -> Content:
    return Content(source, True, [0] * len(source.inputs), [])


def variant(pool: list[InputSet], random_numbers: random.Random, changed: bool) -> Content:
    """Rolled by a random number of rows, and a few elements `changed`; integers stay.

    Inputs that a problem makes itself must not be changed: an element that is there twice would
    be a tie where the problem promised none. Rows keep what holds within them.
    """
    source = random_numbers.choice(pool)
    shifts, mutations = [], []
    for index, value in enumerate(source.inputs):
        if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
            shifts.append(0)
            continue
        rows = value.shape[0] if value.dim() else 1
        shifts.append(random_numbers.randrange(rows) if rows > 1 else 0)
        if changed and value.numel():
            picked = [
                torch.tensor([random_numbers.randrange(value.numel()) for _ in range(_MUTATIONS)])
                for _ in range(2)
            ]
            mutations.append((index, picked[0], value.view(-1)[picked[1]]))
    return Content(source, False, shifts, mutations)


def copy_rolled(view: torch.Tensor, value: torch.Tensor, shift: int) -> None:
    rest = value.shape[0] - shift if value.dim() else 0
    if not shift:
        view.copy_(value)
        return
    view[:rest].copy_(value[shift:])
    view[rest:].copy_(value[:shift])
