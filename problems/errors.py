"""Errors that cross folders. A failing candidate is never one of them: that is a `Status`."""

from __future__ import annotations


class ConfigError(Exception):
    """The user's input is wrong: one line with the place and the valid choices; exit code 2."""


class InfrastructureError(Exception):
    """The machine, not a candidate, failed: retried at most twice, never scored; exit code 3."""


class SandboxError(InfrastructureError):
    """A sandbox could not be made, started, read or killed."""
