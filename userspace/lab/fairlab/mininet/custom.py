# SPDX-License-Identifier: GPL-2.0
"""The short names of fairlab.mininet for `mn --custom`.

mn 2.3.0 does not add `links` to its own (a comma is missing), so LINKS replaces them.
"""

from mininet.link import Link, OVSLink, TCLink, TCULink

from fairlab.mininet import FairHost, FairLink, Router, SlbnRouter

LINKS = {"default": Link, "tc": TCLink, "tcu": TCULink, "ovs": OVSLink, "fair": FairLink}
hosts = {"fair": FairHost}
switches = {"router": Router, "slbn": SlbnRouter}
