# SPDX-License-Identifier: GPL-2.0
"""The short names of fairlab.mininet for `mn --custom`."""

from fairlab.mininet import FairHost, FairLink, Router, SlbnRouter

links = {"fair": FairLink}
hosts = {"fair": FairHost}
switches = {"router": Router, "slbn": SlbnRouter}
