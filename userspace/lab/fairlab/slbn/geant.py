# SPDX-License-Identifier: GPL-2.0
"""GÉANT, the backbone of Europe's research networks, as it was in March 2012: 40 nodes, 61 links.

Nodes, places, links and their rates are those of the Internet Topology Zoo (Knight, Nguyen,
Falkner, Bowden, Roughan: The Internet Topology Zoo, IEEE JSAC 29(9), 2011; its network
"Geant2012"), which read them off the map that GÉANT published.  Where that has none:

- a link without a label is one of GÉANT's own lit fibres, which carry multiples of 10 Gbit/s: it is
  taken for 10 Gbit/s;
- the places of Ukraine's, Moldova's and Belarus's nodes are their capitals.
"""

from fairlab.slbn.mesh import Mesh, Place, of_places

# Degrees north, degrees east.
NODES: dict[str, Place] = {
    "nl": (52.37403, 4.88969), "be": (50.85045, 4.34878), "dk": (55.67594, 12.56553),
    "pl": (52.41667, 16.96667), "de": (50.11667, 8.68333), "cz": (50.08804, 14.42076),
    "lu": (49.61167, 6.13), "fr": (48.85341, 2.3488), "ch": (46.94809, 7.44744),
    "it": (45.46427, 9.18951), "ua": (50.45, 30.52), "md": (47.01, 28.86),
    "bg": (42.69751, 23.32415), "ro": (44.43225, 26.10626), "tr": (39.05901, 34.91155),
    "gr": (37.97945, 23.71622), "cy": (35.16667, 33.36667), "il": (31.5, 34.75),
    "mt": (35.90917, 14.42556), "by": (53.9, 27.57), "mk": (42.0, 21.43333),
    "me": (42.44111, 19.26361), "hu": (47.49801, 19.03991), "sk": (48.14816, 17.10674),
    "pt": (38.71667, -9.13333), "es": (40.4165, -3.70256), "rs": (44.80401, 20.46513),
    "hr": (45.81444, 15.97798), "si": (46.05108, 14.50513), "at": (48.20849, 16.37208),
    "lt": (54.9, 23.9), "ru": (55.75222, 37.61556), "is": (64.13548, -21.89541),
    "ie": (53.34399, -6.26719), "uk": (51.50853, -0.12574), "no": (62.0, 10.0),
    "se": (59.33258, 18.0649), "fi": (60.45148, 22.26869), "ee": (59.43696, 24.75353),
    "lv": (56.946, 24.10589),
}  # fmt: skip

# Of 10 Gbit/s, or taken for it; others, with their rates in Mbit/s.
LINKS = (
    "nl-be nl-dk nl-de be-ie dk-is dk-no dk-de dk-ee dk-se dk-ru pl-de pl-cz pl-lt de-cz de-lu"
    " de-ch de-at de-ru cz-sk lu-fr fr-ch fr-es fr-uk ch-it ch-es it-es it-at it-gr bg-hu bg-ro"
    " bg-tr bg-gr ro-tr ro-hu gr-at hu-rs hu-hr hu-sk sk-at pt-es pt-uk hr-si si-at lt-lv ie-uk"
    " no-se se-fi ee-lv"
    " nl-uk-2500 nl-lt-2500 pl-ua-1000 pl-by-1000 de-cy-1000 de-il-2500 it-mt-1000 md-ro-1000"
    " bg-mk-155 cy-uk-1000 il-lt-2500 me-hr-155 is-uk-2500"
)


def mesh() -> Mesh:
    """The network, at its own rates."""
    links = ((*link.split("-"), "10000")[:3] for link in LINKS.split())
    return of_places("geant", NODES, ((a, b, int(mbits) * 1_000_000) for a, b, mbits in links))
