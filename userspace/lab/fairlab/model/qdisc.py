# SPDX-License-Identifier: GPL-2.0
"""Qdiscs and buffers of links, in the syntax of the command line and of tc.

    drr_fq                                  drr_fq
    drr_fq,limit=100p,scheduler=scfq        drr_fq limit 100 scheduler scfq
    sfq,limit=127,perturb=10                sfq limit 127 perturb 10
    senders:fq                              fq, on each sender's only link

Options are passed to tc unchanged, so any qdisc can be used with any option; preflight.py has tc
and the kernel check them.  Only the limit of the bottleneck's qdisc is parsed, because it is the
scenario's buffer: a qdisc without a limit gets the scenario's, in the unit that it counts in.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace

from fairlab.model import units
from fairlab.model.errors import UsageError, require_known

BOTTLENECK = "bottleneck"

# Links that a qdisc can be put on.
LINKS = {
    BOTTLENECK: "left to right: limited to the link's rate, with the buffer",
    "reverse": "right to left: acknowledgements, without a rate limit",
    "senders": "each sender to left",
    "receivers": "each receiver to right",
}

PACKETS, BYTES = "packets", "bytes"

# The option of each kind that limits its queue.
_LIMITS = (
    ("bfifo red tbf", {"limit": BYTES}),
    ("cake", {"memlimit": BYTES}),
    ("choke codel dualpi2 fq fq_codel fq_pie hhf netem", {"limit": PACKETS}),
    ("drr_fq", {"limit": PACKETS, "limit_bytes": BYTES}),
    ("pfifo pfifo_head_drop pie sfb sfq", {"limit": PACKETS}),
)
LIMITS = dict(sorted((kind, limits) for kinds, limits in _LIMITS for kind in kinds.split()))
# The smallest packets, so that a limit in packets does not reduce one in bytes.
SMALLEST_PACKET = 60
# The default limit in bytes, which must not reduce one in packets.
AMPLE = 32 * 2**20

BUFFER_TEXTS = "1bdp, 100p (packets) or 64kb"
DEFAULT_BUFFER = "1bdp"

_BUFFER = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)bdp|(\d{1,9})p", re.ASCII)
_KIND = re.compile(r"(?:([a-z]+):)?([a-z][a-z0-9_]{0,14})", re.ASCII)
_OPTION = re.compile(r"([A-Za-z0-9_-]{1,32})(?:=([A-Za-z0-9_.:/%+-]{1,64}))?", re.ASCII)
_PACKETS = re.compile(r"(\d{1,9})p?", re.ASCII)
_BARE = re.compile(r"(\d{1,12})", re.ASCII)


@dataclass(frozen=True)
class Buffer:
    """The size of the bottleneck's buffer: in bytes, or in packets if it was given so."""

    text: str
    size: int = 0
    packets: int = 0

    def bytes_at_most(self, frame: int) -> int:
        """Its size in bytes when it is full of FRAMEs."""
        return min(filter(None, (self.size, self.packets * frame)), default=0)

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
    """A qdisc at a link, with its options for tc."""

    link: str
    kind: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.kind, *self.words))

    def limits(self) -> dict[str, int]:
        """Its limits: option -> amount in the option's unit."""
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
    require_known(f"qdisc '{text}': no link", link, LINKS)
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
    found, example = 0, "100p" if unit == PACKETS else "64kb"
    with suppress(UsageError):
        if match := (_PACKETS if unit == PACKETS else _BARE).fullmatch(value):
            found = int(match[1])
        elif unit == BYTES:
            found = units.parse_size(value)
    if not found:
        raise UsageError(f"qdisc '{text}': '{option}' must be in {unit}, such as {example}")
    return found


def settle_limit(qdisc: Qdisc, buffer: Buffer, asked: bool, frame: int) -> tuple[Qdisc, Buffer]:
    """The bottleneck's qdisc with its limit, and the buffer that results.

    BUFFER is the scenario's; with ASKED the user gave it, so the qdisc must not contradict it.
    """
    known = LIMITS.get(qdisc.kind)
    if known is None:
        raise UsageError(
            f"qdisc '{qdisc}': a {qdisc.kind} cannot be limited at the bottleneck;"
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
        # Only the limit in the unit of the buffer may take effect.
        if not buffer.packets:
            amounts[PACKETS] = buffer.size // SMALLEST_PACKET + 1
        elif amounts[BYTES] <= AMPLE:
            del amounts[BYTES]
    for word, unit in known.items():
        if unit in amounts:
            qdisc = replace(qdisc, words=(*qdisc.words, word, str(amounts[unit])))
    return qdisc, buffer
