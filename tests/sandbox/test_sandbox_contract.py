"""What every sandbox keeps, the fake one too."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from problems.errors import InfrastructureError, SandboxError
from sandbox.blob_store import BlobStore
from sandbox.bubblewrap_sandbox import BubblewrapSandbox
from sandbox.fake_sandbox import FakeSandbox
from sandbox.guest.link import receive_frame, send_frame
from sandbox.sandbox import EndReason, Exit, Limits, Running, Sandbox, Warmth
from tests.sandbox.fake_programs import obedient

PROGRAMS = Path(__file__).with_name("programs")
WAIT_S = 20.0
LIMITS = Limits(wall_s=WAIT_S, output_bytes=10_000, result_bytes=100_000)
SANDBOXES = ["fake", pytest.param("bubblewrap", marks=pytest.mark.sandbox)]


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(tmp_path_factory.mktemp("blobs"))


@pytest.fixture(scope="module", params=SANDBOXES)
def sandbox(
    request: pytest.FixtureRequest, blobs: BlobStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    if request.param == "fake":
        with FakeSandbox(blobs, {"programs.obedient": obedient}) as fake:
            yield fake
        return
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    state = tmp_path_factory.mktemp("state")
    with BubblewrapSandbox(blobs, state, programs=PROGRAMS) as real:
        yield real
    assert not list(state.iterdir())


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(WAIT_S)
        yield ours, theirs


@pytest.fixture
def start(sandbox: Sandbox) -> Callable[..., Running]:
    def start(
        *words: str, limits: Limits = LIMITS, links: tuple[socket.socket, ...] = ()
    ) -> Running:
        slot = sandbox.prepare(Warmth.PLAIN, limits)
        return sandbox.start(slot, {}, ["programs.obedient", *words], links)

    return start


def ended(running: Running) -> Exit:
    found = running.wait(WAIT_S)
    assert found is not None
    return found


def test_a_job_gets_its_files_and_words_and_leaves_status_log_and_results(
    sandbox: Sandbox, blobs: BlobStore
) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    files = {"plan.json": blobs.put(b"{}"), "sources/a.cpp": blobs.put(b"int a;")}
    running = sandbox.start(slot, files, ["programs.obedient", "report", "7"])
    assert running.id == slot.id
    assert ended(running) == Exit(reason=EndReason.EXITED, code=7, log="said\n")
    report = json.loads(running.read("nested/report.json", 1000))
    assert report == {
        "files": {"plan.json": "{}", "sources/a.cpp": "int a;"},
        "argv": ["7"],
    }
    assert running.read("/out/nested/report.json", 1000) == running.read("nested/report.json", 1000)


def test_an_exception_is_status_1_and_its_message_is_in_the_log(
    start: Callable[..., Running],
) -> None:
    found = ended(start("dance"))
    assert (found.reason, found.code) == (EndReason.EXITED, 1)
    assert "ValueError: no such word: dance" in found.log


def test_links_carry_frames_both_ways(
    start: Callable[..., Running], pair: tuple[socket.socket, socket.socket]
) -> None:
    running = start("echo", links=(pair[1],))
    send_frame(pair[0], {"n": 1}, b"bytes")
    assert receive_frame(pair[0], max_data_bytes=100)[:2] == ({"n": 1}, b"bytes")
    assert ended(running).code == 0


def test_nothing_is_there_before_the_end_and_killing_twice_is_killing_once(
    start: Callable[..., Running], pair: tuple[socket.socket, socket.socket]
) -> None:
    running = start("wait", links=(pair[1],))
    assert running.wait(0.01) is None
    with pytest.raises(SandboxError, match="has not ended"):
        running.read("report.json", 1)
    running.kill()
    running.kill()
    assert ended(running) == Exit(reason=EndReason.KILLED, code=None, log="")
    with pytest.raises(SandboxError, match="absent"):
        running.read("report.json", 1)


def test_killing_after_the_end_changes_nothing(start: Callable[..., Running]) -> None:
    running = start("leave", "a", "1")
    before = ended(running)
    running.kill()
    assert ended(running) == before
    assert running.read("a", 1) == b"x"


def test_time_is_up_whether_anybody_waits_or_not(
    start: Callable[..., Running], pair: tuple[socket.socket, socket.socket]
) -> None:
    running = start("wait", links=(pair[1],), limits=LIMITS.model_copy(update={"wall_s": 0.2}))
    pair[1].close()
    assert pair[0].recv(1) == b""
    assert ended(running) == Exit(reason=EndReason.TIMEOUT, code=None, log="")


def test_output_without_an_end_ends_the_job(start: Callable[..., Running]) -> None:
    found = ended(start("flood"))
    assert (found.reason, found.code) == (EndReason.OUTPUT_LIMIT, None)
    assert found.log == "x" * LIMITS.output_bytes


def test_results_are_limited_one_by_one_and_together(start: Callable[..., Running]) -> None:
    running = start("leave", "a", "60000", "b", "60000", "c", "30000")
    assert ended(running).code == 0
    assert len(running.read("a", 60_000)) == 60_000
    assert len(running.read("c", 60_000)) == 30_000
    with pytest.raises(SandboxError, match="no plain file b within its limits, but a, c"):
        running.read("b", 60_000)
    with pytest.raises(SandboxError, match="more than 59999"):
        running.read("a", 59_999)


def test_a_slot_takes_one_job(sandbox: Sandbox) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    argv = ["programs.obedient", "report", "0"]
    ended(sandbox.start(slot, {}, argv))
    with pytest.raises(SandboxError, match="used before"):
        sandbox.start(slot, {}, argv)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a//b", "a\nb"])
def test_a_file_goes_below_work_or_nowhere(sandbox: Sandbox, blobs: BlobStore, path: str) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    with pytest.raises(SandboxError, match="no path for a file"):
        sandbox.start(slot, {path: blobs.put(b"")}, ["programs.obedient", "report", "0"])
    assert sandbox.reap(frozenset()) == (slot.id,)


@pytest.mark.parametrize("program", ["", "slot", "os.path", "programs.dance", "../worker"])
def test_an_unknown_program_is_refused_with_the_valid_ones(sandbox: Sandbox, program: str) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    with pytest.raises(SandboxError, match=r"valid are .*programs\.obedient"):
        sandbox.start(slot, {}, [program])
    assert sandbox.reap(frozenset()) == (slot.id,)


def test_an_absent_file_leaves_the_slot_usable(sandbox: Sandbox) -> None:
    slot = sandbox.prepare(Warmth.PLAIN, LIMITS)
    argv = ["programs.obedient", "report", "0"]
    with pytest.raises(InfrastructureError, match="blob 00000000"):
        sandbox.start(slot, {"a": "0" * 64}, argv)
    assert ended(sandbox.start(slot, {}, argv)).code == 0


def test_reaping_spares_the_living(
    sandbox: Sandbox, start: Callable[..., Running], pair: tuple[socket.socket, socket.socket]
) -> None:
    spare, kept = (sandbox.prepare(Warmth.PLAIN, LIMITS) for _ in range(2))
    first, second = socket.socketpair()
    with first, second:
        running, other = start("wait", links=(first,)), start("wait", links=(pair[1],))
        assert set(sandbox.reap({kept.id, other.id})) == {spare.id, running.id}
    assert ended(running).reason is EndReason.KILLED
    assert other.wait(0) is None
    with pytest.raises(SandboxError, match="is dead"):
        sandbox.start(spare, {}, ["programs.obedient", "report", "0"])
    assert ended(sandbox.start(kept, {}, ["programs.obedient", "report", "0"])).code == 0
    assert sandbox.reap(frozenset()) == (other.id,)
