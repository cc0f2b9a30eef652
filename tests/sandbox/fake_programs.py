"""The programs of the contract's tests, for the fake sandbox."""

from __future__ import annotations

import json

from sandbox.fake_sandbox import FakeJob
from sandbox.guest.link import LinkError, receive_frame, send_frame


def obedient(job: FakeJob) -> int:
    word, *rest = job.argv
    if word == "report":
        files = {path: data.decode() for path, data in job.files.items()}
        job.results["nested/report.json"] = json.dumps({"files": files, "argv": rest}).encode()
        job.say("said\n")
        return int(rest[0])
    if word == "leave":
        for name, size in zip(rest[::2], rest[1::2], strict=True):
            job.results[name] = b"x" * int(size)
        return 0
    if word == "flood":
        while not job.ended.is_set():
            job.say("x" * 4096)
        return 0
    if word == "echo":
        message, data, _ = receive_frame(job.links[0], max_data_bytes=1 << 20)
        send_frame(job.links[0], message, data)
        return 0
    if word == "wait":
        try:
            receive_frame(job.links[0])
        except LinkError:
            return 0
    raise ValueError(f"no such word: {word}")
