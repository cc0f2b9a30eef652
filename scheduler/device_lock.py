"""Who may use a device of this machine now, over all processes and users: `LANES` as file locks."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from problems.errors import InfrastructureError
from problems.problem import Target
from scheduler.job import Stage
from scheduler.lanes import LANES, lane_of

_POLL_S = 0.02


def lock_mode(stage: Stage, target: Target) -> int | None:
    """`LOCK_EX` for a lane that excludes itself, `LOCK_SH` for one that others exclude, or None."""
    lane = lane_of(stage)
    excluded_by = {other for other, rule in LANES.items() if lane in rule.excludes[target]}
    if lane in excluded_by:
        return fcntl.LOCK_EX
    return fcntl.LOCK_SH if excluded_by else None


def machine_folder() -> Path:
    """The same for every user and home of the machine."""
    shared = Path("/run/lock")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


class DeviceLock:
    """Locks vanish with their process; the files stay, empty and writable by everybody."""

    def __init__(self, device: str, folder: Path | None = None) -> None:
        """`device` is `cpu` or a GPU's UUID."""
        place = folder or machine_folder()
        self._path = place / f"kagent-{device}.lock"
        self._turnstile = place / f"kagent-{device}.turn.lock"

    @contextmanager
    def held(
        self, stage: Stage, target: Target, give_up: Callable[[], bool] = lambda: False
    ) -> Iterator[bool]:
        """False inside the block if `give_up` became true first.

        Who waits holds the turnstile, so that a stream of builds cannot starve a measurement.

        Raises:
            InfrastructureError: the lock's file cannot be opened.
        """
        mode = lock_mode(stage, target)
        if mode is None:
            yield not give_up()
            return
        turnstile = _open(self._turnstile)
        try:
            device = _open(self._path)
            try:
                taken = _take(turnstile, fcntl.LOCK_EX, give_up) and _take(device, mode, give_up)
                fcntl.flock(turnstile, fcntl.LOCK_UN)
                yield taken
            finally:
                os.close(device)
        finally:
            os.close(turnstile)


def _take(file: int, mode: int, give_up: Callable[[], bool]) -> bool:
    pause = threading.Event()
    while not give_up():
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_POLL_S)
        else:
            return True
    return False


def _open(path: Path) -> int:
    """Without O_CREAT first: a sticky folder forbids creating what is there and another user's."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            file = os.open(path, flags | os.O_CREAT, 0o666)
            os.fchmod(file, 0o666)
            return file
    except OSError as error:
        raise InfrastructureError(f"the device's lock {path}: {error}") from error
