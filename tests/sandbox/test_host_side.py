"""What happens around slots on the host: its death, its user, its control groups, bad input."""

from __future__ import annotations

import json
import os
import select
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from problems.errors import SandboxError
from sandbox import bubblewrap_command
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_command import BubblewrapCommand, Descriptors, reachable_by_all
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.cgroup import Cgroups, CgroupUnavailable
from sandbox.results import HostileResult, ResultReader
from sandbox.sandbox import Limits, Warmth
from sandbox.slot_process import explain
from sandbox.slot_records import ProcessIdentity, SlotRecord, SlotRecords

REPOSITORY = Path(__file__).parents[2]
WAIT_S = 20
AS_ORDINARY_USER = (
    *("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"),
    *("sh", "-c", 'exec "$0" "$@"'),  # setpriv itself still has root's way into private folders
)
needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@pytest.mark.sandbox
@needs_bubblewrap
def test_a_killed_host_process_leaves_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.hold_a_slot", str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        slots = set(json.loads(holder.stdout.readline()))
        records = SlotRecords(state).all()
        assert {record.slot for record in records} == slots
        inits = [os.pidfd_open(record.processes[1].pid) for record in records]
        with BubblewrapSandbox(BlobStore(tmp_path), state) as sandbox:
            assert sandbox.reap(frozenset()) == ()
            holder.kill()
            for init in inits:
                assert select.select([init], [], [], WAIT_S)[0]
                os.close(init)
            holder.wait()
            assert set(sandbox.reap(frozenset())) == slots
            assert not list(state.iterdir())
            if not sandbox.isolation_notes:
                left = [f for slot in slots for f in Cgroups().folders_of(slot) if f.exists()]
                assert not left


def test_reaping_kills_what_an_earlier_process_recorded(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        assert identity.alive
        identity.model_copy(update={"started": identity.started - 1}).kill()
        assert identity.alive
        identity.kill()
        assert child.wait() == -9
    assert ProcessIdentity.of(child.pid) is None
    records = SlotRecords(tmp_path / "state")
    assert records.all() == ()
    record = SlotRecord(slot="a", owner=identity, processes=(identity,))
    records.write(record)
    (tmp_path / "state" / "torn.json").write_text("{")
    assert records.all() == (record,)


def _other_python() -> str | None:
    """One that an ordinary user can run, with the same version as this."""
    candidates = [sys.base_prefix + "/bin/python3", "/usr/bin/python3"]
    for path in candidates:
        done = subprocess.run([*AS_ORDINARY_USER, path, "-V"], capture_output=True, text=True)
        if not done.returncode and done.stdout.split()[1].startswith(
            f"{sys.version_info[0]}.{sys.version_info[1]}."
        ):
            return path
    return None


@pytest.mark.sandbox
@needs_bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_is_as_safe_and_is_told_what_is_weaker() -> None:
    python = _other_python()
    if python is None:
        pytest.skip(f"no Python {sys.version_info[0]}.{sys.version_info[1]} for ordinary users")
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    if not all(reachable_by_all(path) for path in (REPOSITORY, Path(packages))):
        pytest.skip("the repository lies in a private folder")
    done = subprocess.run(
        [*AS_ORDINARY_USER, python, "-m", "tests.sandbox.ordinary_user"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    found = json.loads(done.stdout)
    assert found["uid"] == 12345
    assert found["notes"][0].startswith("memory is limited for each process")
    assert 10 < found["processes"] <= 64
    assert found["memory"] == ["exited", 1, ["MemoryError"]]
    assert found["daemon"] == found["tricks"] == ["exited", 0, []]


def test_control_groups_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "kagent").mkdir()
    for folder in (tmp_path, tmp_path / "kagent"):
        (folder / "cgroup.controllers").write_text("cpu io memory pids\n")
    groups = Cgroups(tmp_path)
    assert (tmp_path / "kagent" / "cgroup.subtree_control").read_text() == "+memory +pids"
    group = groups.create("slot", Limits(memory_bytes=5 << 20, pids=9))
    assert group.folders == (tmp_path / "kagent" / "slot",)
    assert (group.folders[0] / "memory.max").read_text() == str(5 << 20)
    assert (group.folders[0] / "pids.max").read_text() == "13"
    assert group.oom_kills() == 0
    (group.folders[0] / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.oom_kills() == 2


def test_control_groups_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(CgroupUnavailable, match="no memory controller"):
        Cgroups(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    with pytest.raises(CgroupUnavailable, match="does not offer memory and pids"):
        Cgroups(tmp_path)


def test_a_missing_bubblewrap_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap_command, "SYSTEM_PATH", "/nowhere")
    with pytest.raises(
        SandboxError, match=r"^bubblewrap is not installed: apt-get install bubblewrap$"
    ):
        BubblewrapCommand(None, None, {"PATH": "/nowhere"})


@pytest.mark.sandbox
@needs_bubblewrap
def test_of_the_hosts_environment_only_the_tuning_of_libraries_is_passed_on() -> None:
    environment = {"PATH": os.environ["PATH"], "OPENBLAS_CORETYPE": "Zen", "API_KEY": "secret"}
    command = BubblewrapCommand(None, None, environment)
    argv = command.argv(Warmth.PLAIN, Limits(), None, Descriptors(7, 8, 9))
    assert "OPENBLAS_CORETYPE" in argv
    assert "secret" not in " ".join(argv)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (
            "bwrap: No permissions to creating new namespace, likely because\n",
            "unprivileged user namespaces are disabled",
        ),
        ("bwrap: setting up uid map: Permission denied\n", "kernel.unprivileged_userns_clone=1"),
        ("bwrap: Unknown option --size\n", "bubblewrap 0.8 or newer is needed"),
        ("Traceback\n  x\nModuleNotFoundError: No module named 'torch'\n", "No module named"),
        ("", "without a word"),
    ],
)
def test_a_slot_that_does_not_start_is_explained_in_a_line(printed: str, line: str) -> None:
    assert line in explain(printed)
    assert "\n" not in explain(printed)


def frame(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<II", len(text), len(data)) + text.encode() + data


def test_results_arrive_in_any_parts() -> None:
    whole = frame(json.dumps({"code": -9, "files": [["a", 2], ["b/c", 1]]}), b"xyz")
    reader = ResultReader(10)
    for index in range(len(whole) - 1):
        assert reader.feed(whole[index : index + 1]) is None
    results = reader.feed(whole[-1:])
    assert results is not None
    assert (results.code, results.read("a", 2), results.read("b/c", 1)) == (-9, b"xy", b"z")


@pytest.mark.parametrize(
    ("code", "files", "data"),
    [
        (True, [], b""),
        (1.0, [], b""),
        ("0", [], b""),
        (256, [], b""),
        (-65, [], b""),
        (0, [["a", 2]], b"x"),
        (0, [["a", 1]], b"xy"),
        (0, [["a", -1], ["b", 2]], b"x"),
        (0, [["a", True]], b"x"),
        (0, [["a", 1, 1]], b"x"),
        (0, [["a", 1], ["a", 0]], b"x"),
        (0, [["/etc/passwd", 0]], b""),
        (0, [["../a", 0]], b""),
        (0, [["a\n", 0]], b""),
        (0, [[1, 0]], b""),
        (0, [[f"{n}", 0] for n in range(257)], b""),
        (0, {"a": 1}, b""),
        (0, None, b""),
    ],
)
def test_a_forged_answer_is_refused(code: object, files: object, data: bytes) -> None:
    with pytest.raises(HostileResult):
        ResultReader(10).feed(frame(json.dumps({"code": code, "files": files}), data))


@pytest.mark.parametrize(
    "parts",
    [
        [struct.pack("<II", 1 << 21, 0)],
        [struct.pack("<II", 0, 11)],
        [frame("[]")],
        [frame("{}")],
        [frame("[" * 100_000)],
        [frame('{"code": 0, "files": []}'), b"more"],
        [frame('{"code": ' + "1" * 5000 + ', "files": []}')],
        [frame('{"code": 0, "files": [], "more": 1}')],
        [b"\0" * 9],
    ],
)
def test_a_malformed_frame_is_refused(parts: Sequence[bytes]) -> None:
    with pytest.raises(HostileResult):
        ResultReader(10).feed(b"".join(parts))
