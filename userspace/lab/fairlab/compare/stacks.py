# SPDX-License-Identifier: GPL-2.0
"""The stacks that are compared: the qdisc of each link, and whether SLBN assigns rates.

Each has the settings that its users would have: the defaults of the qdisc, except for what it
cannot know (a FIFO's length, the rate of CAKE's link, a round-trip time that is longer than CoDel's
interval of 100 ms, DCTCP).  docs/compare.md has the table.
"""

from dataclasses import replace

from fairlab.compare.stack import Stack
from fairlab.slbn.experiment import L4S

CCS = ("cubic", "bbr", "dctcp", "bic", "gaimd", "reno")


LIMIT = "limit {buffer}"
#: Without lowered receive windows.
PACED = (("windows", "off"),)
CODEL = "target {target}ms interval {rtt}ms"
#: Links that know assigned traffic by its marks, of which only agents set any; and one queue for
#: each band instead of one for each flow.  What control and unassigned packets take must be part of
#: the headroom: links would promise it to sessions, too, and these would queue.
BANDS = f"{LIMIT} bands domain all unassigned 1%"
BANDED = "headroom auto unassigned 1%"
FIFOS = "flows 1 flows_new 1 hosts 1"
#: slbnd for such links: what is above rates may use whatever is idle.
MARKING = (("windows", "on"), ("borrow", "on"), ("marks", "on"), ("excess", "unassigned"))
#: The same, but nothing is sent above assigned rates.
STRICT = (("windows", "on"), ("borrow", "off"), ("marks", "on"))
FIFO = Stack("slbn-fifo", "drr_fq", f"{BANDS} {FIFOS}", slbn=BANDED, agent=MARKING)
STACKS = {
    stack.name: stack
    for stack in (
        Stack("pfifo", "pfifo", LIMIT),
        Stack("fq_codel", "fq_codel", "", LIMIT, CODEL, "ce_threshold 1ms"),
        Stack("cake", "cake", "bandwidth {rate}bit", "memlimit {bytes}", "rtt {rtt}ms"),
        Stack("fq_pie", "fq_pie", small=LIMIT),
        Stack("drr_fq", "drr_fq", LIMIT),
        Stack("drr_fq-codel", "drr_fq", "limit {deep} codel ecn", "", CODEL, "ce_threshold 1ms"),
        Stack("slbn", "drr_fq", LIMIT, slbn="", agent=PACED),
        Stack("slbn-windows", "drr_fq", LIMIT, slbn="headroom 1", agent=(("windows", "on"),)),
        Stack(
            "slbn-borrow",
            "drr_fq",
            LIMIT,
            slbn="headroom 1",
            agent=(("windows", "on"), ("borrow", "on")),
        ),
        Stack("slbn-bands", "drr_fq", BANDS, slbn=BANDED, agent=MARKING),
        FIFO,
        replace(FIFO, name="slbn-fifo-strict", agent=STRICT),
        replace(FIFO, name="slbn-fifo-one-plain", first_link=f"{LIMIT} flows 1"),
        replace(
            FIFO,
            name="slbn-fifo-one-plain-strict",
            first_link=f"{LIMIT} flows 1",
            agent=STRICT,
        ),
        replace(FIFO, name="slbn-fifo-one-old", first_agent=PACED),
        Stack("slbn-nocommit", "drr_fq", LIMIT, slbn="commit off", agent=PACED),
        Stack("dualpi2", "dualpi2", small=LIMIT, dctcp="any_ect", only=L4S),
    )
}
#: What `fairlab compare` is about: these are compared with all others.
OURS = tuple(name for name in STACKS if name.startswith(("drr_fq", "slbn")))


def cases(stacks: tuple[str, ...], ccs: tuple[str, ...]) -> list[tuple[str, str]]:
    """The pairs of a stack and a congestion control: dualpi2 has its own ones."""
    return [
        (name, cc) for name in stacks for cc in (STACKS[name].only or [c for c in ccs if c in CCS])
    ]


def case_name(stack: str, cc: str) -> str:
    """A pair in the name of a file."""
    return f"{stack}_in_{cc}"


def split_case(name: str) -> tuple[str, str]:
    """The pair in the name of a file."""
    stack, _, cc = name.partition("_in_")
    return stack, cc
