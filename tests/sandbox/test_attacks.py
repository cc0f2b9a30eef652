"""What a candidate may try from inside a slot; every attack runs for real."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from problems.errors import SandboxError
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.cgroup import Cgroups
from sandbox.sandbox import EndReason, Exit, Limits, Running, Warmth

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
PROGRAMS = Path(__file__).with_name("programs")
WAIT_S = 20.0
LIMITS = Limits(wall_s=WAIT_S, memory_bytes=256 << 20, pids=64)
SECRET = "sk-secret-of-the-host"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapSandbox]:
    folder = tmp_path_factory.mktemp("sandbox")
    with (
        pytest.MonkeyPatch.context() as patch,
        BubblewrapSandbox(BlobStore(folder), folder / "state", programs=PROGRAMS) as made,
    ):
        patch.setenv("ANTHROPIC_API_KEY", SECRET)
        yield made


Attack = Callable[..., Exit]


@pytest.fixture
def attack(sandbox: BubblewrapSandbox) -> Attack:
    def attack(word: str, limits: Limits = LIMITS) -> Exit:
        return ended(start(sandbox, word, limits))

    return attack


def start(sandbox: BubblewrapSandbox, word: str, limits: Limits = LIMITS) -> Running:
    return sandbox.start(sandbox.prepare(Warmth.PLAIN, limits), {}, ["programs.attack", word])


def ended(running: Running) -> Exit:
    found = running.wait(WAIT_S)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def found(sandbox: BubblewrapSandbox) -> Any:
    name = f"kagent-{secrets.token_hex(4)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
        running = sandbox.start(slot, {}, ["programs.probe", name, str(os.getpid())])
        assert ended(running).code == 0, ended(running).log
    return json.loads(running.read("found.json", 1 << 20))


def test_denied_system_calls(found: Any) -> None:
    unknown = {"clone3", "a call of a newer kernel", "the x32 ABI"}
    assert found["system calls"] == {
        name: "ENOSYS" if name in unknown else "EPERM" for name in found["system calls"]
    }


def test_no_network_at_all(found: Any) -> None:
    assert set(found["families"].values()) == {"EAFNOSUPPORT"}
    assert found["abstract"] == "ECONNREFUSED"


def test_what_honest_programs_need_is_there(found: Any) -> None:
    assert (found["unix pairs"], found["memory files"]) == ("worked", "worked")


def test_no_files_of_the_host_and_nowhere_to_write(found: Any) -> None:
    assert (found["writable"], found["work"]) == ([], [])
    python = Path(sys.base_prefix).parts
    for folder, names in found["present"].items():
        assert names == [python[len(Path(folder).parts)]], folder
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd"}
    assert set(found["devices"]) <= harmless | {"stdin", "stdout", "stderr", "core", "console"}


def test_no_processes_of_the_host_and_no_secrets(found: Any) -> None:
    assert found["pids"] == [1, 2, 3]
    assert found["host pid"] == "ESRCH"
    assert SECRET not in found["environments"] + found["commands"]
    assert "slot" in found["commands"]
    assert found["descriptors"].keys() == {"0", "1", "2"}


def test_no_privileges(found: Any) -> None:
    assert found["uid"] not in (0, 65534)
    assert found["become root"] in ("EPERM", "EINVAL")
    assert (found["mknod"], found["more processes"]) == ("EPERM", "ValueError")
    nothing = "0" * 16
    assert found["status"] == {
        "CapEff": nothing, "CapPrm": nothing, "CapBnd": found["status"]["CapBnd"],
        "NoNewPrivs": "1", "Seccomp": "2",
    }  # fmt: skip


def test_a_fork_bomb_is_bounded(sandbox: BubblewrapSandbox) -> None:
    running = start(sandbox, "fork")
    assert ended(running).code == 0
    assert 10 < int(running.read("count", 10)) <= LIMITS.pids


@pytest.mark.parametrize("word", ["memory", "memory of many", "memory in files"])
def test_memory_is_limited_for_all_together(
    sandbox: BubblewrapSandbox, attack: Attack, word: str
) -> None:
    if sandbox.isolation_notes:
        pytest.skip(sandbox.isolation_notes[0])
    found = attack(word, LIMITS.model_copy(update={"memory_bytes": 128 << 20}))
    assert found.reason is EndReason.MEMORY_LIMIT


def test_output_of_another_program_is_limited_too(attack: Attack) -> None:
    found = attack("yes")
    assert found.reason is EndReason.OUTPUT_LIMIT
    assert len(found.log) == LIMITS.output_bytes


@pytest.mark.parametrize("word", ["stubborn", "stop all"])
def test_what_ignores_signals_or_stops_its_slot_ends_when_time_is_up(
    attack: Attack, word: str
) -> None:
    found = attack(word, LIMITS.model_copy(update={"wall_s": 0.5}))
    assert (found.reason, found.code) == (EndReason.TIMEOUT, None)


def test_a_daemon_does_not_outlive_its_job(sandbox: BubblewrapSandbox) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(WAIT_S)
        with theirs:
            running = sandbox.start(slot, {}, ["programs.attack", "daemon"], [theirs])
        assert ended(running).code == 0
        assert ours.recv(1) == b""


def test_a_job_that_kills_its_slot_has_no_status(attack: Attack) -> None:
    assert attack("kill the slot") == Exit(reason=EndReason.EXITED, code=None, log="")


def test_only_plain_files_come_out(sandbox: BubblewrapSandbox) -> None:
    running = start(sandbox, "tricks")
    assert ended(running).code == 0, ended(running).log
    assert running.read("good", 10) == b"good"
    for name in ("link", "folder/os-release", "up", "pipe", "first", "sparse", "closed", "socket"):
        with pytest.raises(SandboxError, match=r"within its limits, but good$"):
            running.read(name, 1 << 30)


def test_files_beyond_the_limit_are_left_out(sandbox: BubblewrapSandbox) -> None:
    running = start(sandbox, "many files")
    assert ended(running).code == 0
    with pytest.raises(SandboxError, match="within its limits"):
        running.read("20000", 10)


def test_a_locked_result_folder_is_an_empty_one(sandbox: BubblewrapSandbox) -> None:
    running = start(sandbox, "locked")
    assert ended(running).code == 0
    with pytest.raises(SandboxError, match="but nothing"):
        running.read("x", 10)


def test_nothing_is_left_on_the_host(sandbox: BubblewrapSandbox) -> None:
    running = start(sandbox, "locked")
    ended(running)
    if not sandbox.isolation_notes:
        assert not [f for f in Cgroups().folders_of(running.id) if f.exists()]


@pytest.mark.slow
def test_torch_threads_and_a_compiler_work(sandbox: BubblewrapSandbox) -> None:
    slot = sandbox.prepare(Warmth.TORCH, Limits(cores=2))
    running = sandbox.start(slot, {}, ["programs.compute"])
    found = ended(running)
    assert (found.code, found.log) == (2, "")
    assert running.read("a.so", 1 << 20).startswith(b"\x7fELF")


def test_a_device_or_an_image_is_refused(sandbox: BubblewrapSandbox) -> None:
    with pytest.raises(SandboxError, match="no device cuda:0: valid is cpu"):
        sandbox.prepare(Warmth.PLAIN, LIMITS, device="cuda:0")
    with pytest.raises(SandboxError, match="no images"):
        sandbox.prepare(Warmth.PLAIN, LIMITS, image="0" * 64)
