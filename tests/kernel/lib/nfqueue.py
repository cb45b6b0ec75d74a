# SPDX-License-Identifier: GPL-2.0
"""Verdicts on packets that a netfilter rule queues to user space (queue num 0).

The kernel goes on with a packet in the system call that sends its verdict: in process context, with
bottom halves enabled.  See linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

from tests.kernel.lib.background import repeated
from tests.kernel.lib.net import sh
from tests.kernel.lib.netlink import HEADER, NLM_F_REQUEST, attribute, attributes

NETLINK_NETFILTER, NFNL_SUBSYS_QUEUE = 12, 3
NFQNL_MSG_PACKET, NFQNL_MSG_VERDICT, NFQNL_MSG_CONFIG = 0, 1, 2
NFQA_PACKET_HDR, NFQA_VERDICT_HDR = 1, 2
NFQA_CFG_CMD, NFQA_CFG_PARAMS = 1, 2
NFQNL_CFG_CMD_BIND, NFQNL_COPY_META = 1, 1
NF_ACCEPT = 1
#: struct nfgenmsg: family, version, number of the queue.
NFGENMSG = struct.Struct("!BBH")


class Queue:
    """Queue 0 of the network namespace where it is created; accepts all packets."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.accepted = 0
        self._send(
            NFQNL_MSG_CONFIG,
            attribute(NFQA_CFG_CMD, bytes([NFQNL_CFG_CMD_BIND, 0, 0, 0])),
        )
        parameters = struct.pack("!IB", 0, NFQNL_COPY_META)
        self._send(NFQNL_MSG_CONFIG, attribute(NFQA_CFG_PARAMS, parameters))

    def _send(self, kind: int, content: bytes) -> None:
        body = NFGENMSG.pack(0, 0, 0) + content
        kind |= NFNL_SUBSYS_QUEUE << 8
        self.socket.send(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST, 0, 0) + body)

    def accept(self, message: bytes) -> None:
        """Accept the packet of a message; other messages are ignored."""
        _, kind, *_ = HEADER.unpack_from(message)
        if kind != NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET:
            return
        found = dict(attributes(message[HEADER.size + NFGENMSG.size :]))
        packet = found[NFQA_PACKET_HDR][:4]
        verdict = attribute(NFQA_VERDICT_HDR, struct.pack("!I", NF_ACCEPT) + packet)
        # When this returns, the kernel has processed the packet.
        self._send(NFQNL_MSG_VERDICT, verdict)
        self.accepted += 1


#: Rules that queue control packets, by hook.
RULES = """set -e
nft add table inet queued
nft add chain inet queued c '{{ type filter hook {hook} priority {priority}; }}'
nft add rule inet queued c udp dport 49470 queue num 0"""


@contextlib.contextmanager
def queued(hook: str, priority: int = 0) -> Iterator[Queue]:
    """Queue the control packets at a hook of the caller's namespace, and accept them."""
    queue = Queue()
    queue.socket.settimeout(0.05)

    def accept_next() -> None:
        with contextlib.suppress(TimeoutError):
            queue.accept(queue.socket.recv(1 << 16))

    with contextlib.closing(queue.socket), repeated(accept_next):
        sh(RULES.format(hook=hook, priority=priority))
        yield queue
        sh("nft delete table inet queued")
