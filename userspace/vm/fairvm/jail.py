# SPDX-License-Identifier: GPL-2.0
"""Namespaces in which only chosen directories of the host can be written.

User-Mode Linux is a program, and its root user can mount hostfs with any path of the host, however
we mount it in the guest.  To protect the host, the program itself runs in a new mount namespace,
where all file systems are read-only (mount_setattr with AT_RECURSIVE, Linux 5.12) except the shared
directories, and /dev/shm is a new tmpfs, which holds the guest's memory.  It runs in a new PID
namespace, too: the guest's processes are processes of the host, and the kernel kills them when the
first one ends.

Root creates these namespaces directly.  Other users need a user namespace, in which root is mapped
to that user: the guest can read the files that the user can, and the user owns the files it writes.

Requires Linux 5.12; for users other than root, user namespaces.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1
SCRATCH = Path("/dev/shm")


class Jail:
    """The namespaces; a child process enters them before it executes its program."""

    def __init__(self, writable: list[Path]) -> None:
        self.writable = [os.fsencode(path) for path in writable]
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.user = os.getuid()
        self.group = os.getgid()

    def enter(self) -> None:
        """Enter them; new children of this process are in the new PID namespace."""
        self._check(
            self.libc.unshare(CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWUSER if self.user else 0)),
            "cannot create namespaces (not root, and user namespaces are disabled?)",
        )
        if self.user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {self.user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {self.group} 1")
        self._mount(None, b"/", None, MS_REC | MS_PRIVATE)
        for path in self.writable:
            self._mount(path, path, None, MS_BIND | MS_REC)
        self._set_read_only(b"/", True)
        for path in self.writable:
            self._set_read_only(path, False)
        # Huge pages if the host has them, as a kernel on real hardware maps its memory.
        options = b"mode=1777,size=100%"
        try:
            self._mount(b"tmpfs", os.fsencode(SCRATCH), b"tmpfs", 0, options + b",huge=always")
        except OSError:
            self._mount(b"tmpfs", os.fsencode(SCRATCH), b"tmpfs", 0, options)

    def _mount(
        self,
        source: bytes | None,
        target: bytes,
        kind: bytes | None,
        flags: int,
        data: bytes | None = None,
    ) -> None:
        done = self.libc.mount(source, target, kind, ctypes.c_ulong(flags), data)
        self._check(done, f"cannot mount {os.fsdecode(target)} in the new mount namespace")

    def _set_read_only(self, path: bytes, value: bool) -> None:
        # struct mount_attr: flags to set, flags to clear, propagation, user namespace
        change = (MOUNT_ATTR_RDONLY, 0) if value else (0, MOUNT_ATTR_RDONLY)
        attributes = struct.pack("=QQQQ", *change, 0, 0)
        done = self.libc.syscall(
            ctypes.c_long(SYS_MOUNT_SETATTR),
            ctypes.c_int(AT_FDCWD),
            path,
            ctypes.c_uint(AT_RECURSIVE),
            attributes,
            ctypes.c_size_t(len(attributes)),
        )
        how = "read-only" if value else "writable"
        self._check(done, f"cannot make {os.fsdecode(path)} {how} for the guest")

    @staticmethod
    def _check(result: int, complaint: str) -> None:
        if result:
            raise OSError(ctypes.get_errno(), complaint)


def reporting(step: Callable[[], None], status: int) -> Callable[[], None]:
    """STEP for a child process; if it fails, the child prints the error and exits with STATUS."""

    def guarded() -> None:
        try:
            step()
        except OSError as error:
            os.write(2, f"{error.strerror}: {os.strerror(error.errno or 0)}\n".encode())
            os._exit(status)

    return guarded
