# SPDX-License-Identifier: GPL-2.0
"""Qdiscs on the command line: tc's arguments, the limit that applies, and what is refused."""

from dataclasses import replace

import pytest
from fairlab.model.errors import UsageError
from fairlab.model.qdisc import (
    BOTTLENECK,
    LIMITS,
    LINKS,
    Buffer,
    Qdisc,
    parse_buffer,
    parse_qdisc,
    settle_limit,
)
from hypothesis import given
from hypothesis import strategies as st

FRAME = 1514
WORDS = st.from_regex(r"[a-z][a-z0-9_-]{0,14}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "link", "arguments"),
    [
        ("drr_fq", BOTTLENECK, "drr_fq"),
        (
            "drr_fq,limit=100p,scheduler=scfq,split-gso",
            BOTTLENECK,
            "drr_fq limit 100 scheduler scfq split-gso",
        ),
        ("drr_fq,limit_bytes=64kb", BOTTLENECK, "drr_fq limit_bytes 65536"),
        ("fq_codel,limit=100,noecn", BOTTLENECK, "fq_codel limit 100 noecn"),
        ("sfq,limit=127,perturb=10", BOTTLENECK, "sfq limit 127 perturb 10"),
        ("bfifo,limit=30000", BOTTLENECK, "bfifo limit 30000"),
        ("bottleneck:pfifo", BOTTLENECK, "pfifo"),
        ("senders:fq,maxrate=1mbit", "senders", "fq maxrate 1mbit"),
        # Unknown kinds and options are passed to tc as they are.
        ("reverse:nobody,knows=x:1/2,it", "reverse", "nobody knows x:1/2 it"),
    ],
)
def test_parsed_qdisc_gives_tc_arguments(text: str, link: str, arguments: str) -> None:
    qdisc = parse_qdisc(text)
    assert (qdisc.link, str(qdisc)) == (link, arguments)


@given(st.sampled_from(sorted(LINKS)), WORDS.filter(lambda kind: "-" not in kind), st.lists(WORDS))
def test_options_are_passed_unchanged(link: str, kind: str, options: list[str]) -> None:
    options = [word for word in options if word not in LIMITS.get(kind, {})]
    qdisc = parse_qdisc(":".join((link, ",".join((kind, *options)))))
    assert qdisc == Qdisc(link, kind, tuple(options))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be KIND"),
        ("DRR", "must be KIND"),
        ("$(id)", "must be KIND"),
        ("drr fq", "must be KIND"),
        ("left:fq", "no link 'left'; there are: bottleneck, reverse, senders, receivers"),
        ("fq,", "'' must be KEY=VALUE or a word"),
        ("fq,a=", "'a=' must be KEY=VALUE"),
        ("fq,a=b=c", "must be KEY=VALUE"),
        ("fq,a;reboot", "must be KEY=VALUE"),
        ("fq,a=b\nqdisc del", "must be KEY=VALUE"),
        ("fq,a=#", "must be KEY=VALUE"),
        ("pfifo,limit=64kb", "'limit=64kb' must be in packets, such as 100p"),
        ("pfifo,limit=0", "must be in packets"),
        ("pfifo,limit", "must be in packets"),
        ("drr_fq,limit=-1", "must be in packets"),
        ("bfifo,limit=100p", "'limit=100p' must be in bytes, such as 64kb"),
        ("drr_fq,limit_bytes=0", "must be in bytes"),
    ],
)
def test_malformed_qdiscs_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_qdisc(text)
    assert message in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        qdisc = parse_qdisc(text)
    except UsageError:
        return
    # No character that a shell or `tc -batch` treats specially.
    assert not set(str(qdisc)) & set("#;&|<>$`'\"\\(){}*?!\n\t\r,=")


def settled(text: str, buffer: str, asked: bool = True) -> tuple[str, Buffer]:
    what = parse_buffer(buffer, 50_000_000, 60_000)
    qdisc, found = settle_limit(parse_qdisc(text), what, asked, FRAME)
    return str(qdisc), found


@pytest.mark.parametrize(
    ("text", "buffer", "arguments"),
    [
        ("drr_fq", "20p", "drr_fq limit 20"),
        ("drr_fq,scheduler=rr", "1bdp", "drr_fq scheduler rr limit 6251 limit_bytes 375000"),
        ("drr_fq", "50000p", f"drr_fq limit 50000 limit_bytes {50_000 * FRAME}"),
        ("fq_codel", "20p", "fq_codel limit 20"),
        ("fq_codel", "1bdp", "fq_codel limit 248"),
        ("sfq", "1b", "sfq limit 1"),
        ("bfifo", "20p", f"bfifo limit {20 * FRAME}"),
        ("cake", "64kb", "cake memlimit 65536"),
    ],
)
def test_buffer_is_the_default_limit(text: str, buffer: str, arguments: str) -> None:
    found, left = settled(text, buffer)
    assert found == arguments
    assert left == parse_buffer(buffer, 50_000_000, 60_000)


def test_limit_sets_the_buffer() -> None:
    found, buffer = settled("drr_fq,limit=100p", "1bdp", asked=False)
    assert found == "drr_fq limit 100"
    assert buffer == Buffer("limit 100", packets=100)
    assert buffer.bytes_at_most(FRAME) == 100 * FRAME
    _, buffer = settled("drr_fq,limit=1000,limit_bytes=64kb", "1bdp", asked=False)
    assert buffer.bytes_at_most(FRAME) == 65_536
    _, buffer = settled("bfifo,limit=9000", "1bdp", asked=False)
    assert buffer.bytes_at_most(FRAME) == 9000


def test_limit_and_buffer_must_agree() -> None:
    for text, buffer in (("drr_fq,limit=20p", "20p"), ("fq_codel,limit=248", "1bdp")):
        found, left = settled(text, buffer)
        assert found.endswith(f"limit {text.partition('=')[2].rstrip('p')}")
        assert left.text == buffer
    with pytest.raises(UsageError, match="'drr_fq limit 20' has limit 20, which is not the buffer"):
        settled("drr_fq,limit=20p", "21p")
    with pytest.raises(UsageError, match="has limit 20, limit_bytes 9000, which is not the buffer"):
        settled("drr_fq,limit=20p,limit_bytes=9000", "20p")


def test_qdisc_without_known_limit_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a prio cannot be limited at the bottleneck; there"):
        settled("prio", "20p")


@given(st.sampled_from(sorted(LIMITS)), st.integers(2000, 2**30), st.booleans())
def test_settle_limit_is_idempotent(kind: str, size: int, in_packets: bool) -> None:
    buffer = Buffer("x", packets=size // 2000) if in_packets else Buffer("x", size=size)
    once, _ = settle_limit(Qdisc(BOTTLENECK, kind), buffer, True, FRAME)
    assert once.limits()
    options = [f"{word}={amount}" for word, amount in once.limits().items()]
    assert parse_qdisc(",".join((kind, *options))) == once
    again, left = settle_limit(once, replace(buffer, text="y"), False, FRAME)
    assert again == once
    # Rounding to whole packets changes it by less than one packet.
    assert abs(left.bytes_at_most(FRAME) - buffer.bytes_at_most(FRAME)) <= FRAME
