# SPDX-License-Identifier: GPL-2.0
"""The agent: its sessions, detected flows, hosts, restarts and faults."""
