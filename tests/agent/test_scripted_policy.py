"""The scripted policy."""

from __future__ import annotations

from agent.attempt import Confirm, Proposal, Stop
from agent.policies.scripted_policy import ScriptedPolicy
from tests.agent.simulated_run import Machine, row_kernel


def test_scripted_policy_carries_out_its_script_once() -> None:
    kernel = row_kernel()
    script = [
        Proposal(
            solution=kernel.render({"unroll": unroll}),
            hypothesis="as written",
            technique="row_kernel",
            parameters=kernel.defaults() | {"unroll": unroll},
            hold=True,
        )
        for unroll in ("1", "2")
    ]
    machine = Machine(ScriptedPolicy([script[0], Confirm(attempt=0), script[1]]), [kernel])
    assert machine.run() == Stop(reason="the script is at its end")
    assert machine.decisions[:3] == [script[0], Confirm(attempt=0), script[1]]
