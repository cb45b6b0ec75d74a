# SPDX-License-Identifier: GPL-2.0
"""What guest/capture.c writes: packets in the format pcapng (scripts/vm --pcap), or fingerprints of
those sent (--packets).

A file of fingerprints has two octets for each packet, so that the first packet that differs between
two runs can be found, then the number of packets (eight octets, little-endian) and the SHA-256 of
the whole fingerprints, eight octets each.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from fairvm.errors import VmError

ENHANCED_PACKET = 6


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """The blocks of a file: (type, body)."""
    with path.open("rb") as handle:
        while head := handle.read(8):
            if len(head) < 8:
                raise VmError(f"{path}: ends within a block")
            kind, length = struct.unpack("=II", head)
            body = handle.read(length - 8)
            if length < 12 or len(body) != length - 8:
                raise VmError(f"{path}: ends within a block")
            yield kind, body[:-4]


def hash_capture(path: Path) -> tuple[str, int]:
    """The SHA-256 of a file, and how many packets are in it."""
    digest, packets = hashlib.sha256(), 0
    for kind, body in _blocks(path):
        digest.update(struct.pack("=I", kind) + body)
        packets += kind == ENHANCED_PACKET
    return digest.hexdigest(), packets


class FingerprintFile:
    """Receives the fingerprints of a run through a pipe, and keeps two octets of each in a file."""

    def __init__(self, path: Path) -> None:
        self.packets, self.digest = 0, ""
        self._path = path
        self._source, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._file = path.open("wb")
        self._error: OSError | None = None

    def __enter__(self) -> FingerprintFile:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # All writers have ended: the machine, and our end, which the machine closed, unless an
        # error or a signal was first.
        self._thread.join(1 if error else None)
        if self._error and not error:
            raise VmError(f"cannot write {self._path}: {self._error.strerror}")

    def _read(self) -> None:
        digest, rest = hashlib.sha256(), b""
        with self._file, os.fdopen(self._source, "rb") as source:
            while data := source.read1(1 << 16):
                digest.update(data)
                data = rest + data
                whole = len(data) // 8 * 8
                data, rest = data[:whole], data[whole:]
                words = memoryview(data).cast("H")
                self._keep(words[::4].tobytes())
                self.packets += whole // 8
            self._keep(struct.pack("<Q", self.packets) + digest.digest())
        self.digest = digest.hexdigest()

    def _keep(self, data: bytes) -> None:
        # The guest waits until we have read: go on after an error.
        if self._error:
            return
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self._error = error
