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
    size: int
    tos: int  # of the server's packets
    cc: str

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise ValueError(f"test {self.test}: not one of {', '.join(TESTS)}")
        if not 0 <= self.seconds <= MAX_SECONDS or not 0 <= self.size <= sys.maxsize:
            raise ValueError(f"length: from 0 to {MAX_SECONDS:.0f} s, or bytes")
        if not 0 <= self.tos <= 255 or len(self.cc) > 15:
            raise ValueError("marking or congestion control: out of range")


def tcp_info(end: socket.socket) -> tuple[int, int, int]:
    """MSS, retransmitted segments and acknowledged bytes of a connection."""
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
    (mss,) = struct.unpack_from("=I", info, SND_MSS)
    (retransmitted,) = struct.unpack_from("=I", info, TOTAL_RETRANS)
    (acknowledged,) = struct.unpack_from("=Q", info, BYTES_ACKED)
    return mss, retransmitted, acknowledged


def configure(end: socket.socket, tos: int, cc: str) -> None:
    """Set DSCP and ECN bits, and the congestion control."""
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


def receive(end: socket.socket, request: Request, meter: Meter) -> dict[str, Any]:
    """Receive until the sender ends, and report the receiver's counters.

    Give up when a second more than the length of the test has passed without data.
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
        elif time.monotonic() - heard > request.seconds + 1:
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
            request = Request(**json.loads(line))
            (self.echo if request.test == "UDP_RR" else self.stream)(request)
        except (TypeError, ValueError, OSError) as error:
            self.reply({"error": str(error)})

    def echo(self, request: Request) -> None:
        """Return each datagram until the client closes the control connection."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
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
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            configure(listener, request.tos, request.cc)
            listener.bind((self.request.getsockname()[0], 0))
            listener.listen(1)
            listener.settimeout(60)
            self.reply({"port": listener.getsockname()[1]})
            end, _ = listener.accept()
        with end:
            meter = Meter(0, 8e-6, "10^6bits/s")
            counted = send if request.test == "TCP_MAERTS" else receive
            self.reply(counted(end, request, meter))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


# --- client -------------------------------------------------------------------------------------


def run(common: dict[str, str], specific: dict[str, str]) -> dict[str, Any]:
    """Run the test, and return netperf's names with their values.

    COMMON are the global options, SPECIFIC those of the test, after `--`.
    """
    length = float(common.get("-l", "10"))
    marks = [int(mark, 0) for mark in common.get("-Y", "0").split(",") if mark] or [0]
    tos = marks[0]
    request = Request(
        common.get("-t", "TCP_STREAM"),
        length if length >= 0 else MAX_SECONDS,
        int(max(0, -length)),
        marks[-1],
        specific.get("-K", "").split(",")[0],
    )
    udp = request.test == "UDP_RR"
    host, port = common.get("-H", "localhost"), int(common.get("-p", "12865"))
    interval = abs(float(common.get("-D", "0")))
    control = socket.create_connection((host, port), 60)
    with control, control.makefile("rwb") as lines:
        lines.write(json.dumps(asdict(request)).encode() + b"\n")
        lines.flush()
        answer = _answer(lines.readline(MAX_LINE))
        kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
        with socket.socket(socket.AF_INET, kind) as end:
            configure(end, tos, "" if udp else request.cc)
            end.connect((specific.get("-H", host), answer["port"]))
            if udp:
                meter = Meter(interval, 1, "Trans/s")
                answered = exchange(end, request, meter, float(specific.get("-e", "2")))
                rate = meter.rate(answered)
                found = {"THROUGHPUT": rate, "PROTOCOL": "UDP", "DIRECTION": "Send|Recv"}
            else:
                meter = Meter(interval, 8e-6, "10^6bits/s")
                upload = request.test == "TCP_STREAM"
                ours = (send if upload else receive)(end, request, meter)
                theirs = _answer(lines.readline(MAX_LINE))
                local, remote = ("LOCAL", ours), ("REMOTE", theirs)
                (source, sent), (sink, received) = (local, remote) if upload else (remote, local)
                found = {
                    "THROUGHPUT": ours["rate"],
                    "PROTOCOL": "TCP",
                    "DIRECTION": "Send" if upload else "Recv",
                    "TRANSPORT_MSS": ours["mss"],
                    "LOCAL_CONG_CONTROL": ours["cc"],
                    "REMOTE_CONG_CONTROL": theirs["cc"],
                    f"{source}_TRANSPORT_RETRANS": sent["retransmitted"],
                    f"{sink}_TRANSPORT_RETRANS": 0,
                    f"{source}_BYTES_SENT": sent["bytes"],
                    f"{sink}_BYTES_RECVD": received["bytes"],
                    f"{source}_SEND_SIZE": CHUNK,
                    f"{sink}_RECV_SIZE": CHUNK,
                }
    return found | {
        "ELAPSED_TIME": f"{meter.elapsed():.2f}",
        "LOCAL_SOCKET_TOS": hex(tos),
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


def main(words: list[str]) -> int:
    """Options for the banner, verbosity, units, payload, family and sizes of writes are ignored."""
    try:
        if words[:1] == ["--serve"]:
            with Server((words[1], int(words[2])), Handler) as server:
                server.serve_forever(poll_interval=60)
        common, rest = getopt.getopt(words, "46P:v:f:F:H:p:t:l:D:Y:")
        specific = dict(getopt.getopt(rest, "e:m:M:H:k:K:")[0])
        found = run(dict(common), specific)
    except (OSError, ValueError, OverflowError, getopt.GetoptError) as error:
        print(f"netperf: {error}", file=sys.stderr)
        return 1
    for key in specific.get("-k", "").split(","):
        if key in found:
            print(f"{key}={found[key]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
