"""A failing reference is a user's input, not a crash: its error as one line with the place."""

from __future__ import annotations

import traceback

REFERENCE_FILE = "reference.py"
_MAX_CHARACTERS = 300


class UnfitReferenceError(Exception):
    """The reference runs, but is not what its definition declares; the message is one line."""


REFERENCE_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError, UnfitReferenceError,
)  # fmt: skip
"""What running a reference may raise."""


def located(error: BaseException) -> str:
    """`reference line 12: TypeError: …`; without the line where it was found at the end."""
    message = (str(error).strip() or type(error).__name__).splitlines()[0]
    line = error.lineno if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == REFERENCE_FILE:
            line = frame.lineno
    where = f"reference line {line}" if line else "reference"
    kind = "" if isinstance(error, UnfitReferenceError) else f"{type(error).__name__}: "
    return f"{where}: {kind}{message}"[:_MAX_CHARACTERS]
