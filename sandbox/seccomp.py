"""The system calls that no slot may make: one deny-list, encoded as a BPF program.

A deny-list and not an allow-list, because torch, OpenMP and compilers change what they call;
what is newer than this list is refused as unknown, and C libraries then fall back.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

from problems.errors import SandboxError

DENIED = {
    "ptrace": 101, "syslog": 103, "modify_ldt": 154, "pivot_root": 155, "adjtimex": 159,
    "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167,
    "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "vhangup": 153,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298,
    "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
"""Answered with EPERM; numbers of x86-64 (Linux, arch/x86/entry/syscalls/syscall_64.tbl)."""
LAST_KNOWN = 462
"""mseal, Linux 6.10; later calls do not exist as far as a slot can tell."""
ALLOWED_FAMILIES = (socket.AF_UNIX,)
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET."""
DENIED_IOCTLS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type into a terminal."""

_SOCKET, _CLONE, _CLONE3, _IOCTL = 41, 56, 435, 16
_AUDIT_ARCH_X86_64 = 0xC000003E
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


class _Program:
    """BPF instructions; a jump of 1 skips the next instruction."""

    def __init__(self) -> None:
        self._code = bytearray()

    def add(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._code += struct.pack("=HBBI", operation, if_true, if_false, value)

    def fail(self, error: int) -> None:
        self.add(_RETURN, _ERRNO | error)

    def encoded(self) -> bytes:
        return bytes(self._code)


def bpf() -> bytes:
    """For `bwrap --seccomp FD`.

    Raises:
        SandboxError: the machine is not x86-64.
    """
    if platform.machine() != "x86_64":
        raise SandboxError(f"no seccomp filter for {platform.machine()}: only x86_64 has one")
    program = _Program()
    program.add(_LOAD, _ARCH_AT)
    program.add(_EQUAL, _AUDIT_ARCH_X86_64, if_true=1)
    program.add(_RETURN, _KILL)
    program.add(_LOAD, _NUMBER_AT)
    program.add(_AT_LEAST, LAST_KNOWN + 1, if_false=1)  # the x32 ABI too: its numbers have a bit
    program.fail(errno.ENOSYS)
    for number in DENIED.values():
        program.add(_EQUAL, number, if_false=1)
        program.fail(errno.EPERM)
    program.add(_EQUAL, _CLONE3, if_false=1)  # its flags lie in memory; glibc falls back to clone
    program.fail(errno.ENOSYS)
    _deny_arguments(program)
    program.add(_RETURN, _ALLOW)
    return program.encoded()


def _deny_arguments(program: _Program) -> None:
    program.add(_EQUAL, _CLONE, if_false=4)
    program.add(_LOAD, _FIRST_ARGUMENT_AT)
    program.add(_ANY_BIT, NEW_NAMESPACES, if_false=1)
    program.fail(errno.EPERM)
    program.add(_LOAD, _NUMBER_AT)
    count = len(ALLOWED_FAMILIES)
    program.add(_EQUAL, _SOCKET, if_false=count + 3)
    program.add(_LOAD, _FIRST_ARGUMENT_AT)
    for index, family in enumerate(ALLOWED_FAMILIES):
        program.add(_EQUAL, family, if_true=count - index)
    program.fail(errno.EAFNOSUPPORT)
    program.add(_LOAD, _NUMBER_AT)
    count = len(DENIED_IOCTLS)
    program.add(_EQUAL, _IOCTL, if_false=count + 3)
    program.add(_LOAD, _SECOND_ARGUMENT_AT)
    for index, request in enumerate(DENIED_IOCTLS):
        last = index == count - 1
        program.add(_EQUAL, request, if_true=count - 1 - index, if_false=1 if last else 0)
    program.fail(errno.EPERM)
    program.add(_LOAD, _NUMBER_AT)
