"""Shared buffers: what a worker can and cannot do with them, and where tensors lie."""

from __future__ import annotations

import mmap
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guest.buffers import ALIGNMENT, GUARD_BYTES, SharedBuffer, layout, tensor_bytes
from sandbox.guest.link import LinkError, receive_frame, send_frame


def test_inputs_cannot_be_mapped_writable() -> None:
    buffer = SharedBuffer.create(8192, others_may_write=False)
    buffer.map[0:4] = b"made"
    with pytest.raises(PermissionError):
        mmap.mmap(buffer.fd, 8192, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.ftruncate(buffer.fd, 0)
    other = SharedBuffer(buffer.fd, 8192, writable=False)
    assert other.map[0:4] == b"made"
    assert other.address % ALIGNMENT == 0
    buffer.close()


def test_outputs_are_seen_by_both() -> None:
    buffer = SharedBuffer.create(4096, others_may_write=True)
    other = SharedBuffer(buffer.fd, 4096, writable=True)
    other.map[7] = 42
    assert buffer.map[7] == 42
    buffer.close()


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), max_size=3), st.sampled_from(["bfloat16", "int64", "bool"])
        ),
        min_size=1,
        max_size=5,
    )
)
def test_tensors_never_touch(shapes: list[tuple[list[int], str]]) -> None:
    specs = [{"shape": shape, "dtype": dtype} for shape, dtype in shapes]
    offsets, end = layout(specs)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    places = [(o, o + tensor_bytes(s)) for o, s in zip(offsets, specs, strict=True)]
    filled = [place for place in places if place[1] > place[0]]
    for (_, first_end), (second_start, _) in zip(filled, filled[1:], strict=False):
        assert second_start - first_end >= GUARD_BYTES
    assert all(stop + GUARD_BYTES <= end for _, stop in filled)


def test_frames_carry_json_bytes_and_descriptors() -> None:
    left, right = socket.socketpair()
    buffer = SharedBuffer.create(4096, others_may_write=True)
    send_frame(left, {"a": [1, None]}, b"xyz", (buffer.fd,))
    message, data, fds = receive_frame(right, max_data_bytes=10, max_fds=2)
    assert (message, data, len(fds)) == ({"a": [1, None]}, b"xyz", 1)
    os.close(fds[0])
    buffer.close()
    left.close()
    right.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff" * 8,
        b"\x02\x00\x00\x00\x00\x00\x00\x00[]",
        b"\x02\x00\x00\x00\x00\x00\x00\x00{{",
        b"\x02\x00\x00\x00\x05\x00\x00\x00{}12345",
        b"\x02\x00",
        b"",
    ],
)
def test_a_hostile_frame_is_refused(frame: bytes) -> None:
    left, right = socket.socketpair()
    left.sendall(frame)
    left.close()
    with pytest.raises(LinkError):
        receive_frame(right, max_data_bytes=4)
    right.close()
