"""The simulated device, with a clock that its jobs move and a record of what it executed."""

from __future__ import annotations

from problems.evaluation import Status
from sandbox.blob_store import BlobStore
from scheduler.fake_executor import FakeExecutor
from scheduler.job import JobSpec, Stage, StageResult

COST_S = {
    Stage.CEILINGS: 3.0, Stage.ANALYZE: 1.0, Stage.BUILD: 1.0, Stage.CHECK: 0.5,
    Stage.SCREEN: 1.0, Stage.CONFIRM: 5.0, Stage.JUDGE: 4.0,
}  # fmt: skip


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeMachine:
    """Implements `Executor`."""

    def __init__(self, blobs: BlobStore, clock: FakeClock) -> None:
        self._executor = FakeExecutor(blobs)
        self._blobs = blobs
        self._clock = clock
        self.executed: list[str] = []
        self.compiles_at_most = 100

    def execute(self, spec: JobSpec) -> StageResult:
        self.executed.append(spec.key)
        self._clock.now += COST_S[spec.stage]
        result = self._executor.execute(spec)
        if spec.stage is Stage.BUILD and self._is_compiled(spec):
            self.compiles_at_most -= 1
        if self.compiles_at_most < 0 and spec.stage is Stage.BUILD and self._is_compiled(spec):
            log = "Traceback (most recent call last):\nRuntimeError: no compiler\n"
            changes = {"status": Status.COMPILE_ERROR, "artifact": None, "log": log}
            result = result.model_copy(update=changes)
        return result.model_copy(update={"seconds": COST_S[spec.stage]})

    def _is_compiled(self, spec: JobSpec) -> bool:
        assert spec.solution is not None
        return b"torch.compile" in self._blobs.get(spec.solution)

    def cancel(self) -> None:
        self._executor.cancel()

    def close(self) -> None: ...
