# SPDX-License-Identifier: GPL-2.0
"""Which qdisc stands at which link, as people write it and as tc takes it.

    drr_fq                                  drr_fq
    drr_fq,limit=100p,scheduler=scfq        drr_fq limit 100 scheduler scfq
    sfq,limit=127,perturb=10                sfq limit 127 perturb 10
    senders:fq                              fq, on each sender's only link

Words are handed on to tc as they are, so that every qdisc that it knows can be used with every
option; whether they make sense is for tc and the kernel to say (preflight.py asks them).  Only the
limit of what stands at the bottleneck is ours to understand, because it is the experiment's buffer:
a qdisc that is given none gets the scenario's, in the unit that it counts in.
"""

import re
from dataclasses import dataclass, replace

from fairlab.model import units
from fairlab.model.errors import UsageError

BOTTLENECK = "bottleneck"

# Links that a qdisc can be put on.
LINKS = {
    BOTTLENECK: "left to right: waits for the link's rate, and holds the buffer",
    "reverse": "right to left: acknowledgements, at the machine's own speed",
    "senders": "each sender to left",
    "receivers": "each receiver to right",
}

PACKETS, BYTES = "packets", "bytes"

# How each kind is told how much it may hold.
LIMITS: dict[str, dict[str, str]] = {
    "bfifo": {"limit": BYTES},
    "cake": {"memlimit": BYTES},
    "choke": {"limit": PACKETS},
    "codel": {"limit": PACKETS},
    "drr_fq": {"limit": PACKETS, "limit_bytes": BYTES},
    "dualpi2": {"limit": PACKETS},
    "fq": {"limit": PACKETS},
    "fq_codel": {"limit": PACKETS},
    "fq_pie": {"limit": PACKETS},
    "hhf": {"limit": PACKETS},
    "netem": {"limit": PACKETS},
    "pfifo": {"limit": PACKETS},
    "pfifo_head_drop": {"limit": PACKETS},
    "pie": {"limit": PACKETS},
    "red": {"limit": BYTES},
    "sfb": {"limit": PACKETS},
    "sfq": {"limit": PACKETS},
    "tbf": {"limit": BYTES},
}
# A limit in bytes must not be cut short by one in packets: so small are the smallest.
SMALLEST_PACKET = 60
# And one in packets not by one in bytes, which is so large if nothing is said.
AMPLE = 32 * 2**20

BUFFER_TEXTS = "1bdp, 100p (packets) or 64kb"
DEFAULT_BUFFER = "1bdp"

_BUFFER = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)bdp|(\d{1,9})p", re.ASCII)
_KIND = re.compile(r"(?:([a-z]+):)?([a-z][a-z0-9_]{0,14})", re.ASCII)
_OPTION = re.compile(r"([A-Za-z0-9_-]{1,32})(?:=([A-Za-z0-9_.:/%+-]{1,64}))?", re.ASCII)
_PACKETS = re.compile(r"(\d{1,9})p?", re.ASCII)
_BARE = re.compile(r"\d{1,12}", re.ASCII)


@dataclass(frozen=True)
class Buffer:
    """How much the bottleneck holds: in bytes, or in packets if that is what was asked for."""

    text: str
    size: int = 0
    packets: int = 0

    def bytes_at_most(self, frame: int) -> int:
        """Its size in bytes when it is full of FRAMEs."""
        both = [size for size in (self.size, self.packets * frame) if size]
        return min(both, default=0)

    def amount(self, unit: str, frame: int) -> int:
        """Its size in PACKETS or BYTES."""
        if unit == BYTES:
            return self.bytes_at_most(frame)
        return self.packets or max(1, round(self.size / frame))


def parse_buffer(text: str, rate: int, rtt: int) -> Buffer:
    """A buffer such as `1bdp` (of rate x rtt), `100p` (packets) or `64kb`."""
    match = _BUFFER.fullmatch(text.strip().lower())
    if match and match[2]:
        return Buffer(text, packets=int(match[2]))
    if match:
        factor, _ = units.split_quantity(match[1])
        return Buffer(text, size=round(factor * rate * rtt / (8 * 10**6)))
    try:
        return Buffer(text, size=units.parse_size(text))
    except UsageError:
        raise UsageError(f"buffer '{text}': must be like {BUFFER_TEXTS}") from None


@dataclass(frozen=True)
class Qdisc:
    """A kind of queue at a link, and what tc is told about it."""

    link: str
    kind: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.kind, *self.words))

    def limits(self) -> dict[str, int]:
        """What it is told it may hold: word -> amount in the word's unit."""
        known = LIMITS.get(self.kind, {})
        pairs = zip(self.words, self.words[1:], strict=False)
        return {word: int(value) for word, value in pairs if word in known}


def parse_qdisc(text: str) -> Qdisc:
    """A qdisc such as `drr_fq,limit=100p` or `senders:fq`."""
    head, *options = text.strip().split(",")
    match = _KIND.fullmatch(head)
    if not match:
        raise UsageError(
            f"qdisc '{text}': must be KIND[,KEY=VALUE][,WORD]..., such as drr_fq,limit=100p"
        )
    link, kind = match[1] or BOTTLENECK, match[2]
    if link not in LINKS:
        raise UsageError(f"qdisc '{text}': no link '{link}'; there are: {', '.join(LINKS)}")
    words: list[str] = []
    for option in options:
        found = _OPTION.fullmatch(option)
        if not found:
            raise UsageError(f"qdisc '{text}': '{option}' must be KEY=VALUE or a word")
        key, value = found.groups()
        unit = LIMITS.get(kind, {}).get(key)
        if unit:
            value = str(_parse_limit(text, option, value or "", unit))
        words += [key, value] if value else [key]
    return Qdisc(link, kind, tuple(words))


def _parse_limit(text: str, option: str, value: str, unit: str) -> int:
    if unit == PACKETS:
        match = _PACKETS.fullmatch(value)
        if match and int(match[1]):
            return int(match[1])
        raise UsageError(f"qdisc '{text}': '{option}' must be in packets, such as 100p")
    try:
        size = int(value) if _BARE.fullmatch(value) else units.parse_size(value)
    except UsageError:
        size = 0
    if not size:
        raise UsageError(f"qdisc '{text}': '{option}' must be in bytes, such as 64kb")
    return size


def settle_limit(qdisc: Qdisc, buffer: Buffer, asked: bool, frame: int) -> tuple[Qdisc, Buffer]:
    """The bottleneck's qdisc with its limit, and the buffer that this is.

    BUFFER is the scenario's; ASKED: somebody wrote it, so it must not be contradicted.
    """
    known = LIMITS.get(qdisc.kind)
    if known is None:
        raise UsageError(
            f"qdisc '{qdisc}': it is not known how to limit a {qdisc.kind} at the bottleneck;"
            f" there are: {', '.join(LIMITS)}"
        )
    given = qdisc.limits()
    if given:
        if asked and any(
            buffer.amount(known[word], frame) != amount for word, amount in given.items()
        ):
            words = ", ".join(f"{word} {amount}" for word, amount in given.items())
            raise UsageError(f"qdisc '{qdisc}' has {words}, which is not the buffer {buffer.text}")
        in_unit = {known[word]: amount for word, amount in given.items()}
        return qdisc, Buffer(
            buffer.text if asked else " ".join(f"{w} {a}" for w, a in given.items()),
            size=in_unit.get(BYTES, 0),
            packets=in_unit.get(PACKETS, 0),
        )
    amounts = {unit: buffer.amount(unit, frame) for unit in known.values()}
    if len(amounts) > 1:
        # Only the unit of the buffer is to count.
        if not buffer.packets:
            amounts[PACKETS] = buffer.size // SMALLEST_PACKET + 1
        elif amounts[BYTES] <= AMPLE:
            del amounts[BYTES]
    for word, unit in known.items():
        if unit in amounts:
            qdisc = replace(qdisc, words=(*qdisc.words, word, str(amounts[unit])))
    return qdisc, buffer
