# SPDX-License-Identifier: GPL-2.0
"""Splats: the kernel's reports of its own errors, found in its log and taint flags."""

from __future__ import annotations

import re

# How a kernel's error messages begin.  Matched at the start of a message only: harmless ones have
# such words inside (and a module that taints the kernel is not a splat).
SPLAT = re.compile(
    r"""^(?:<\d+>)?(?:\[\s*\d+[.]\d+\])?(?:\[\s*[TC]\d+\])?\s*(?:
      (?:\[\ )?BUG:|WARNING:|UBSAN:|KASAN:|KFENCE:|Oops\b|kernel\ BUG\ at|Kernel\ panic|Call\ Trace:
    | general\ protection\ fault|stack\ segment:|divide\ error:|invalid\ opcode:|double\ fault
    | Unable\ to\ handle|refcount_t:|list_(?:add|del)\ corruption|page_owner
    | INFO:\ (?:task\ .*\ blocked|possible\ |suspicious\ |lockdep|trying\ to\ register|rcu)
    | (?:rcu:\ )?INFO:\ rcu\w*\ .*stall|rcu:\ .*(?:detected\ stall|self-detected)
    | watchdog:\ BUG:|unregister_netdevice:\ waiting|Modules\ linked\ in:
    )""",
    re.VERBOSE,
)
# KCSAN's reports, for each of the two functions its module.  Only those with one of our modules are
# splats: mainline has many data races, most of them harmless.
DATA_RACE = re.compile(r"BUG: KCSAN: ")
# Mainline's readers of data that a child qdisc writes under its lock, which they do not take: HTB's
# dump reads the length of any child's queue.
LOCKLESS_READERS = ("htb_dump_class_stats [sch_htb]",)
OUR_MODULES = ("[sch_drr_fq]", "[sch_slbn]", "[tcp_bic]", "[tcp_gaimd]", "[splat]")
# Taint flags that only a splat sets: bad page, died, warned, soft lockup.
SPLAT_TAINTS = {5: "bad page", 7: "oops", 9: "warning", 14: "soft lockup"}
SPLAT_LINES = 60
# The flags in an oops, as the processor pushed them, and the bits of them that have the same value
# in every x86 processor (Intel SDM, volume 1, 3.4.3): bit 1 is set; 3, 5, 15 and 22 to 31 are not.
EFLAGS = re.compile(r"\bEFLAGS: ([0-9a-f]{8})\b")
FIXED_EFLAGS, FIXED_VALUE = 0xFFC0802A, 0x00000002
# Logged by guest-init right before the command starts.
BEGINS = "fairpath: the command begins"


def is_ours(line: str) -> bool:
    """Whether the first line of a report of a data race is about our modules' code."""
    ours = any(module in line for module in OUR_MODULES)
    return ours and not any(reader in line for reader in LOCKLESS_READERS)


def splat_in(log: str) -> list[str]:
    """The first splat in LOG, with the line before it; at most SPLAT_LINES lines."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if SPLAT.match(line):
            if DATA_RACE.search(line) and not is_ours(line):
                continue
            first = max(0, number - 1)
            return lines[first : first + SPLAT_LINES]
    return []


def impossible_flags(splat: list[str]) -> str:
    """The first flags in SPLAT, if no x86 processor can have them, in hexadecimal; else "".

    qemu's emulation keeps the operands of the last operation and computes flags from them when
    they are needed.  With some instructions that fault, it takes an operand for flags (qemu's
    commit e3693cd3c9fe describes how), and the guest's kernel dies, whatever it ran.  Only the
    first flags are looked at: the processor has just pushed them, while those of older frames may
    have been overwritten by the kernel.
    """
    flags = EFLAGS.search("\n".join(splat))
    if flags and int(flags[1], 16) & FIXED_EFLAGS != FIXED_VALUE:
        return flags[1]
    return ""


def find_splat(console: str, dmesg: str, taint: int, from_start: bool) -> list[str]:
    """The lines of a run's splat, from its two logs and TAINT; [] if there is none.

    Messages of the boot count only if FROM_START.
    """
    logs = [console, dmesg]
    if not from_start:
        logs = [log.partition(BEGINS)[2] or log for log in logs]
    splat = splat_in(logs[0]) or splat_in(logs[1])
    marks = [name for bit, name in SPLAT_TAINTS.items() if taint >> bit & 1]
    if marks and not splat:
        return [f"(only the kernel's taint flags show it: {', '.join(marks)})"]
    return splat
