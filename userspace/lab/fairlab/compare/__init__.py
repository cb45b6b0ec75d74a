# SPDX-License-Identifier: GPL-2.0
"""One workload on many stacks: `fairlab compare`."""
