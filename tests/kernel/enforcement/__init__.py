# SPDX-License-Identifier: GPL-2.0
"""What the agent does to packets: rates, windows, marks, and what hosts gain by cheating."""
