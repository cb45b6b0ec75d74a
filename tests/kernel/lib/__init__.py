# SPDX-License-Identifier: GPL-2.0
"""What the tests of the kernel share: networks, netlink, packets, programs."""
