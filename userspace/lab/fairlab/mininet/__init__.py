# SPDX-License-Identifier: GPL-2.0
"""Links, hosts and routers for Mininet scripts; docs/mininet.md shows how to use them.

    from fairlab.mininet import FairLink, FairHost, Router, SlbnRouter

With `mn`, by their short names in custom.py:

    mn --custom .../fairlab/mininet/custom.py --link fair,rate=100mbit,delay=10ms
"""

from fairlab.mininet.links import FairIntf, FairLink
from fairlab.mininet.nodes import FairHost, Router, SlbnRouter

__all__ = ["FairHost", "FairIntf", "FairLink", "Router", "SlbnRouter"]
