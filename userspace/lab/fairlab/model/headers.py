# SPDX-License-Identifier: GPL-2.0
"""Sizes of packet headers, in bytes."""

ETHERNET = 14  # as queues count it: without preamble and checksum
# IPv4, TCP, and TCP's timestamps, which every data segment carries.
SEGMENT = 20 + 20 + 12
# IPv4, UDP.
DATAGRAM = 20 + 8
