# SPDX-License-Identifier: GPL-2.0
"""Kernel images: their release, and the form of them that boots fastest in qemu."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import re
import struct
import subprocess
import zlib

from fairvm.errors import UsageError
from fairvm.host import need

PAYLOADS = (
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x5d\x00\x00", "lzma"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)


def boot_header(image: bytes) -> bool:
    """Is this a bzImage?"""
    return len(image) > 0x250 and image[0x202:0x206] == b"HdrS"


def image_release(image: bytes) -> str | None:
    """The release of a kernel image; None if it is not one."""
    if boot_header(image):
        offset = struct.unpack_from("<H", image, 0x20E)[0] + 0x200
        text = image[offset : offset + 256].split(b"\0")[0]
        return text.decode("ascii", "replace").split(" ")[0] or None
    match = re.search(rb"Linux version (\S+) \(", image)
    return match[1].decode("ascii", "replace") if match else None


def decompress(payload: bytes) -> bytes | None:
    """Decompress the payload of a bzImage (four more bytes follow the compressed data); None if it
    is malformed."""
    with contextlib.suppress(EOFError, OSError, ValueError, lzma.LZMAError, zlib.error):
        return _decompress(payload)
    return None


def _decompress(payload: bytes) -> bytes | None:
    kind = next((name for magic, name in PAYLOADS if payload.startswith(magic)), None)
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if kind == "lzma":
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload)
    if kind == "bzip2":
        return bz2.BZ2Decompressor().decompress(payload)
    if kind == "gzip":
        return gzip.decompress(payload[:-4])
    if kind == "zstd":
        tool = need("zstd", "zstd")
        done = subprocess.run([tool, "-dqc"], input=payload[:-4], capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


def has_pvh_entry(elf: bytes) -> bool:
    """Does the ELF image have the note with its PVH entry point (CONFIG_PVH)?"""
    if elf[:5] != b"\x7fELF\x02":
        return False
    if len(elf) < 64:
        return False
    table, size, count = (
        struct.unpack_from("<Q", elf, 32)[0],
        *struct.unpack_from("<HH", elf, 54),
    )
    for index in range(count):
        kind, _flags, offset = struct.unpack_from("<IIQ", elf, table + index * size)
        length = struct.unpack_from("<Q", elf, table + index * size + 32)[0]
        # PT_NOTE, holding a note of owner "Xen" and type 18, XEN_ELFNOTE_PHYS32_ENTRY
        if kind == 4 and b"\x12\0\0\0Xen\0" in elf[offset : offset + length]:
            return True
    return False


def bootable(image: bytes) -> bytes:
    """The form of IMAGE that qemu boots fastest: the ELF image inside a bzImage if it can be
    extracted (which saves the guest its decompression), else the bzImage."""
    if not boot_header(image):
        if has_pvh_entry(image):
            return image
        raise UsageError("not a kernel that qemu can boot (no bzImage, no ELF with CONFIG_PVH)")
    start = (image[0x1F1] or 4) * 512 + 512 + struct.unpack_from("<I", image, 0x248)[0]
    length = struct.unpack_from("<I", image, 0x24C)[0]
    elf = decompress(image[start : start + length])
    return elf if elf is not None and has_pvh_entry(elf) else image
