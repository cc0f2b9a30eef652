"""Does what its words say; `tests.sandbox.fake_programs` has its twin for the fake sandbox."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

from sandbox.guest.link import receive_frame, send_frame


def main(argv: list[str], links: list[socket.socket]) -> int:
    word, *rest = argv
    if word == "report":
        work = Path("/work")
        files = {str(p.relative_to(work)): p.read_text() for p in work.rglob("*") if p.is_file()}
        Path("/out/nested").mkdir()
        Path("/out/nested/report.json").write_text(json.dumps({"files": files, "argv": rest}))
        sys.stdout.write("said\n")
        return int(rest[0])
    if word == "leave":
        for name, size in zip(rest[::2], rest[1::2], strict=True):
            Path("/out", name).write_bytes(b"x" * int(size))
        return 0
    if word == "flood":
        while True:
            sys.stdout.write("x" * 4096)
    if word == "echo":
        message, data, _ = receive_frame(links[0], max_data_bytes=1 << 20)
        send_frame(links[0], message, data)
        return 0
    if word == "wait":
        links[0].recv(1)
        return 0
    raise ValueError(f"no such word: {word}")
