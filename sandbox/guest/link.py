"""Framed JSON, bytes and file descriptors over a unix stream socket, strict on both sides."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_HEADER = struct.Struct("<II")
"""Length of the JSON, length of the bytes behind it."""
MAX_JSON_BYTES = 16 << 20
MAX_FDS = 250
"""The kernel's SCM_MAX_FD is 253."""


class LinkError(Exception):
    """The other side closed, or sent what is no frame."""


def send_frame(
    link: socket.socket, message: dict[str, Any], data: bytes = b"", fds: tuple[int, ...] = ()
) -> None:
    text = json.dumps(message, allow_nan=False).encode()
    head = _HEADER.pack(len(text), len(data))
    if fds:
        sent = socket.send_fds(link, [head], fds)
        link.sendall(head[sent:])
    else:
        link.sendall(head)
    link.sendall(text)
    if data:
        link.sendall(data)


def receive_frame(
    link: socket.socket, max_data_bytes: int = 0, max_fds: int = 0
) -> tuple[dict[str, Any], bytes, list[int]]:
    """
    Raises:
        LinkError: closed, too large, not a JSON object, or unexpected descriptors.
        TimeoutError: the socket's timeout passed.
    """
    fds: list[int] = []
    head = b""
    while len(head) < _HEADER.size:
        if max_fds:
            part, new, _, _ = socket.recv_fds(link, _HEADER.size - len(head), max_fds)
            fds += new
        else:
            part = link.recv(_HEADER.size - len(head))
        if not part:
            raise LinkError("the other side closed the link")
        head += part
    text_bytes, data_bytes = _HEADER.unpack(head)
    if text_bytes > MAX_JSON_BYTES or data_bytes > max_data_bytes:
        raise LinkError(f"a frame of {text_bytes} + {data_bytes} bytes is too large")
    try:
        message = json.loads(_receive_exactly(link, text_bytes))
    except (ValueError, RecursionError) as error:
        raise LinkError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise LinkError("a frame must be a JSON object")
    return message, _receive_exactly(link, data_bytes), fds


def _receive_exactly(link: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    done = 0
    while done < count:
        got = link.recv_into(view[done:])
        if not got:
            raise LinkError("the other side closed the link")
        done += got
    return bytes(data)
