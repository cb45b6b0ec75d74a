# SPDX-License-Identifier: GPL-2.0
"""TCP and UDP flows for Flent, with the command line and the output of netperf.

    python3 -m fairlab.run.netperf -H 10.0.1.1 -t TCP_STREAM -l 60 -D -0.2 -- -K bic -k THROUGHPUT
    python3 -m fairlab.run.netperf --serve 10.0.1.1 12865

Most of Flent's tests start netperf, which Debian 12 has in its section non-free only.  This is the
part of it that Flent uses: TCP_STREAM (upload), TCP_MAERTS (download) and UDP_RR (request and
response), results in intervals, and values at the end as KEY=VALUE.  Uploads count acknowledged
bytes; netperf counts those written to the socket, buffers included.

The client sends its request as a line of JSON on the control connection.  The server answers with
the port of the test, and after the test with its own counters.
"""

from __future__ import annotations

import getopt
import json
import select
import socket
import socketserver
import struct
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

MAX_LINE = 4096  # of the control connection
CHUNK = 128 * 1024  # bytes given to the socket at a time
MAX_SECONDS = 86400.0
TESTS = ("TCP_STREAM", "TCP_MAERTS", "UDP_RR")
# Of struct tcp_info (linux/tcp.h): tcpi_snd_mss, tcpi_total_retrans, tcpi_bytes_acked.
TCP_INFO_SIZE, SND_MSS, TOTAL_RETRANS, BYTES_ACKED = 136, 16, 100, 120


@dataclass(frozen=True)
class Request:
    """A test: of SECONDS, or of SIZE bytes if that is not 0."""

    test: str
    seconds: float
    size: int = 0
    tos: int = 0  # of the server's packets
    cc: str = ""

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise ValueError(f"test {self.test}: not one of {', '.join(TESTS)}")
        if not 0 <= self.seconds <= MAX_SECONDS or self.size < 0:
            raise ValueError(f"length: from 0 to {MAX_SECONDS:.0f} s, or bytes")
        if not 0 <= self.tos <= 255 or len(self.cc) > 15:
            raise ValueError("marking or congestion control: out of range")

    @classmethod
    def parse(cls, line: bytes) -> Request:
        """Raise ValueError if LINE is not a request."""
        try:
            found = json.loads(line)
            request = cls(
                str(found["test"]),
                float(found["seconds"]),
                int(found["size"]),
                int(found["tos"]),
                str(found["cc"]),
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"not a request: {error}") from None
        return request


def tcp_info(end: socket.socket) -> tuple[int, int, int]:
    """MSS, retransmitted segments and acknowledged bytes of a connection."""
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
    (mss,) = struct.unpack_from("=I", info, SND_MSS)
    (retransmitted,) = struct.unpack_from("=I", info, TOTAL_RETRANS)
    (acknowledged,) = struct.unpack_from("=Q", info, BYTES_ACKED)
    return mss, retransmitted, acknowledged


def configure(end: socket.socket, tos: int, cc: str) -> None:
    """Set DSCP and ECN bits, and the congestion control."""
    if end.family == socket.AF_INET6:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
    else:
        end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    if cc:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())


def congestion_control(end: socket.socket) -> str:
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


class Meter:
    """Prints the rate of each interval, as netperf -D does."""

    def __init__(self, interval: float, per_unit: float, unit: str) -> None:
        """One byte or answer is PER_UNIT of UNIT; with INTERVAL 0, nothing is printed."""
        self.interval, self.per_unit, self.unit = interval, per_unit, unit
        self.begin = self.last = time.monotonic()
        self.before = self.n = 0

    def elapsed(self) -> float:
        return time.monotonic() - self.begin

    def rate(self, total: int) -> float:
        """Of the whole test until now."""
        return total * self.per_unit / max(self.elapsed(), 1e-9)

    def until_next(self) -> float:
        """Seconds until the interval ends."""
        if not self.interval:
            return 1.0
        return max(0.0, self.last + self.interval - time.monotonic())

    def add(self, total: int) -> None:
        """TOTAL has been counted until now."""
        now = time.monotonic()
        took = now - self.last
        if not self.interval or took < self.interval:
            return
        values = {
            "NETPERF_INTERIM_RESULT": f"{(total - self.before) * self.per_unit / took:.3f}",
            "NETPERF_UNITS": self.unit,
            "NETPERF_INTERVAL": f"{took:.6f}",
            "NETPERF_ENDING": f"{time.time():.6f}",
        }
        for name, value in values.items():
            print(f"{name}[{self.n}]={value}", flush=True)
        self.last, self.before, self.n = now, total, self.n + 1


def send(end: socket.socket, request: Request, meter: Meter) -> dict[str, Any]:
    """Send for the length of the test, and report the sender's counters."""
    end.setblocking(False)
    data, written = bytes(CHUNK), 0
    while meter.elapsed() < request.seconds and not (request.size and written >= request.size):
        wait = min(meter.until_next(), request.seconds - meter.elapsed())
        if select.select([], [end], [], max(wait, 0.001))[1]:
            left = request.size - written if request.size else CHUNK
            written += end.send(data[: min(left, CHUNK)])
        meter.add(tcp_info(end)[2])
    mss, retransmitted, acknowledged = tcp_info(end)
    end.setblocking(True)
    end.shutdown(socket.SHUT_WR)
    total = written if request.size else acknowledged
    return {
        "bytes": total,
        "mss": mss,
        "retransmitted": retransmitted,
        "cc": congestion_control(end),
        "rate": meter.rate(total),
    }


def receive(end: socket.socket, meter: Meter, seconds: float) -> dict[str, Any]:
    """Receive until the sender ends, and report the receiver's counters.

    Give up when a second more than a test of SECONDS has passed without data.
    """
    total, buffer = 0, bytearray(CHUNK)
    heard = time.monotonic()
    end.setblocking(False)
    while True:
        if select.select([end], [], [], max(min(meter.until_next(), 1.0), 0.001))[0]:
            found = end.recv_into(buffer)
            if not found:
                break
            total, heard = total + found, time.monotonic()
        elif time.monotonic() - heard > seconds + 1:
            break
        meter.add(total)
    mss = tcp_info(end)[0]
    cc = congestion_control(end)
    return {"bytes": total, "mss": mss, "cc": cc, "rate": meter.rate(total)}


def exchange(end: socket.socket, request: Request, meter: Meter, patience: float) -> int:
    """Send a byte and wait for the answer, again and again; return the number of answers.

    After PATIENCE seconds without an answer the byte is taken for lost and sent again.
    """
    answered = sequence = 0
    while meter.elapsed() < request.seconds:
        sequence += 1
        end.send(struct.pack("!I", sequence))
        sent = time.monotonic()
        while (wait := sent + patience - time.monotonic()) > 0:
            left = request.seconds - meter.elapsed()
            if left <= 0:
                break
            ready = select.select([end], [], [], min(wait, left))[0]
            if ready and struct.unpack("!I", end.recv(4))[0] == sequence:
                answered += 1
                break
        meter.add(answered)
    return answered


# --- server -------------------------------------------------------------------------------------


class Handler(socketserver.StreamRequestHandler):
    """One control connection."""

    def reply(self, document: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(document).encode() + b"\n")

    def handle(self) -> None:
        line = self.rfile.readline(MAX_LINE)
        if not line:
            return
        try:
            request = Request.parse(line)
            if request.test == "UDP_RR":
                self.echo(request)
            else:
                self.stream(request)
        except (ValueError, OSError) as error:
            self.reply({"error": str(error)})

    def echo(self, request: Request) -> None:
        """Return each datagram until the client closes the control connection."""
        with socket.socket(self.request.family, socket.SOCK_DGRAM) as end:
            configure(end, request.tos, "")
            end.bind((self.request.getsockname()[0], 0))
            self.reply({"port": end.getsockname()[1]})
            while True:
                ready = select.select([end, self.request], [], [])[0]
                if self.request in ready:
                    return
                data, sender = end.recvfrom(4)
                if sender[0] == self.client_address[0]:
                    end.sendto(data, sender)

    def stream(self, request: Request) -> None:
        with socket.socket(self.request.family, socket.SOCK_STREAM) as listener:
            configure(listener, request.tos, request.cc)
            listener.bind((self.request.getsockname()[0], 0))
            listener.listen(1)
            listener.settimeout(60)
            self.reply({"port": listener.getsockname()[1]})
            end, _ = listener.accept()
        with end:
            meter = Meter(0, 8e-6, "10^6bits/s")
            if request.test == "TCP_MAERTS":
                self.reply(send(end, request, meter))
            else:
                self.reply(receive(end, meter, request.seconds))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def serve(address: str, port: int) -> None:
    with Server((address, port), Handler) as server:
        server.serve_forever(poll_interval=60)


# --- client -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """netperf's options: the global ones, and after `--` those of the test."""

    serve: tuple[str, int] | None
    control_host: str
    port: int
    host: str
    bind: str
    interval: float  # 0: no results in intervals
    patience: float
    tos: int
    keys: tuple[str, ...]
    request: Request

    @classmethod
    def parse(cls, words: list[str]) -> Options:
        """Raise ValueError or getopt.GetoptError for invalid options.

        Ignored are those for the banner, verbosity, units, payload, family and sizes of writes.
        """
        if words[:1] == ["--serve"] and len(words) == 3:
            where = (words[1], int(words[2]))
            return cls(where, "", 0, "", "", 0, 0, 0, (), Request("UDP_RR", 0))
        first, rest = getopt.getopt(words, "46P:v:f:F:H:p:t:l:D:Y:L:")
        common = dict(first)
        specific = dict(getopt.getopt(rest, "e:m:M:L:H:k:K:")[0])
        control_host = common.get("-H", "localhost")
        length = float(common.get("-l", "10"))
        marks = [int(mark, 0) for mark in common.get("-Y", "0").split(",") if mark] or [0]
        return cls(
            None,
            control_host,
            int(common.get("-p", "12865")),
            specific.get("-H", control_host),
            specific.get("-L", common.get("-L", "")).split(",")[0],
            abs(float(common.get("-D", "0"))),
            float(specific.get("-e", "2")),
            marks[0],
            tuple(specific.get("-k", "").split(",")),
            Request(
                common.get("-t", "TCP_STREAM"),
                length if length >= 0 else MAX_SECONDS,
                int(max(0, -length)),
                marks[-1],
                specific.get("-K", "").split(",")[0],
            ),
        )


def run(options: Options) -> dict[str, Any]:
    """Run the test, and return netperf's names with their values."""
    request = options.request
    control = socket.create_connection((options.control_host, options.port), 60)
    with control, control.makefile("rwb") as lines:
        lines.write(json.dumps(asdict(request)).encode() + b"\n")
        lines.flush()
        answer = _answer(lines.readline(MAX_LINE))
        kind = socket.SOCK_DGRAM if request.test == "UDP_RR" else socket.SOCK_STREAM
        with socket.socket(control.family, kind) as end:
            configure(end, options.tos, request.cc if kind == socket.SOCK_STREAM else "")
            if options.bind:
                end.bind((options.bind, 0))
            end.connect((options.host, answer["port"]))
            if request.test == "UDP_RR":
                meter = Meter(options.interval, 1, "Trans/s")
                answered = exchange(end, request, meter, options.patience)
                found = {"THROUGHPUT": meter.rate(answered), "PROTOCOL": "UDP"}
                found |= {"DIRECTION": "Send|Recv"}
            else:
                meter = Meter(options.interval, 8e-6, "10^6bits/s")
                if request.test == "TCP_STREAM":
                    ours, names = send(end, request, meter), ("LOCAL", "REMOTE")
                    took = meter.elapsed()
                    theirs = _answer(lines.readline(MAX_LINE))
                    sender, receiver = ours, theirs
                else:
                    ours, names = receive(end, meter, request.seconds), ("REMOTE", "LOCAL")
                    took = meter.elapsed()
                    theirs = _answer(lines.readline(MAX_LINE))
                    sender, receiver = theirs, ours
                found = {
                    "THROUGHPUT": ours["bytes"] * 8e-6 / max(took, 1e-9),
                    "PROTOCOL": "TCP",
                    "DIRECTION": "Send" if names[0] == "LOCAL" else "Recv",
                    "TRANSPORT_MSS": ours["mss"],
                    "LOCAL_CONG_CONTROL": ours["cc"],
                    "REMOTE_CONG_CONTROL": theirs["cc"],
                    f"{names[0]}_TRANSPORT_RETRANS": sender["retransmitted"],
                    f"{names[1]}_TRANSPORT_RETRANS": 0,
                    f"{names[0]}_BYTES_SENT": sender["bytes"],
                    f"{names[1]}_BYTES_RECVD": receiver["bytes"],
                    f"{names[0]}_SEND_SIZE": CHUNK,
                    f"{names[1]}_RECV_SIZE": CHUNK,
                }
    return found | {
        "ELAPSED_TIME": f"{meter.elapsed():.2f}",
        "LOCAL_SOCKET_TOS": hex(options.tos),
        "REMOTE_SOCKET_TOS": hex(request.tos),
    }


def _answer(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        raise OSError("the server closed the control connection") from None
    if "error" in found:
        raise OSError(f"the server refuses: {found['error']}")
    return dict(found)


def main() -> int:
    try:
        options = Options.parse(sys.argv[1:])
        if options.serve:
            serve(*options.serve)
            return 0
        found = run(options)
    except (OSError, ValueError, OverflowError, getopt.GetoptError) as error:
        print(f"netperf: {error}", file=sys.stderr)
        return 1
    for key in options.keys:
        if key in found:
            print(f"{key}={found[key]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
