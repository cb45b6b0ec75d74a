# SPDX-License-Identifier: GPL-2.0
"""Published distributions of flow sizes, as tables of their cumulative distribution functions.

    web    web search: Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010
    data   data mining: Greenberg et al., VL2: A Scalable and Flexible Data Center Network,
           SIGCOMM 2009

The papers have curves; the tables are those that later studies read off them (Alizadeh et al.,
pFabric, SIGCOMM 2013), in packets.  Between two rows the distribution is uniform.
"""

import random
from collections.abc import Sequence
from itertools import pairwise

#: The payload of a packet of these tables, in bytes.
PACKET = 1460

# (packets, part of the flows that are not larger)
WEB = (
    (1, 0.0), (6, 0.15), (13, 0.2), (19, 0.3), (33, 0.4), (53, 0.53), (133, 0.6), (667, 0.7),
    (1333, 0.8), (3333, 0.9), (6667, 0.97), (20000, 1.0),
)  # fmt: skip
# Cut at 66,667 packets (97 MB): the largest hundredth, of up to 1 GB, would not end in a run.
DATA = (
    (1, 0.0), (1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66667, 0.99),
    (66667, 1.0),
)  # fmt: skip

#: The classes of flow sizes in results: name, and the largest size [bytes].
CLASSES = (("small", 100_000), ("medium", 10_000_000), ("large", 10**12))

Table = Sequence[tuple[int, float]]


def mean(table: Table) -> float:
    """The mean size of a flow [bytes]."""
    return PACKET * sum((a + b) / 2 * (high - low) for (a, low), (b, high) in pairwise(table))


def draw(table: Table, source: random.Random) -> int:
    """The size of a flow [bytes]."""
    at = source.random()
    for (a, low), (b, high) in pairwise(table):
        if at < high:
            return max(1, round(PACKET * (a + (b - a) * (at - low) / (high - low))))
    return PACKET * table[-1][0]


def class_of(size: int) -> str:
    """The class of a flow of SIZE bytes."""
    return next(name for name, most in CLASSES if size <= most)
