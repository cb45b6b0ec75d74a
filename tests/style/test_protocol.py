# SPDX-License-Identifier: GPL-2.0
"""docs/protocol.md: each MUST is named by code and by a test, and the test vector is right."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from pathlib import Path

import pytest

from tests.kernel.lib.slbn_wire import Packet, read_packet, siphash
from tests.linux_source import TOP
from tests.style.test_style import files

TEXT = (TOP / "docs/protocol.md").read_text()
REQUIREMENTS = re.findall(r"\bMUST(?: NOT)? \((\d+)\)", TEXT)
CODE = ("include/", "sch_slbn/", "userspace/slbnd/")
SOURCES = [path for path in files("*.c", "*.h", "*.py") if Path(path) != Path(__file__)]

KEY, ADDRESSES = bytes(range(16)), ("10.0.0.1", "10.0.0.2")
#: Verifies the packet in hexadecimal on standard input, with the module's and slbnd's functions.
VERIFIER = r"""
#include <stdio.h>
#include <fairpath/slbn/slbn_wire.h>
#include "userspace/common/siphash.c"

int main(void)
{
	static const u8 addresses[8] = { 10, 0, 0, 1, 10, 0, 0, 2 };
	struct slbn_carrier carrier = { addresses, sizeof(addresses), 1800000000 };
	struct slbn_keys keys = { .key = { { .id = 7 } }, .count = 1 };
	const struct slbn_key *key;
	struct slbn_layout layout;
	struct slbn_packet pkt = { 0 };
	u8 data[SLBN_LENGTH_MAX];
	unsigned int octet;
	u32 length = 0;
	u8 n;

	for (n = 0; n < 16; n++)
		((u8 *)keys.key[0].secret)[n] = n;
	while (scanf("%2x", &octet) == 1)
		data[length++] = octet;
	printf("%d ", slbn_parse_packet(data, length, &pkt, &layout));
	printf("%d ", slbn_check_authentication(data, &layout, siphash24, &keys, &carrier, &key));
	data[20] ^= 1;
	printf("%d\n", slbn_check_authentication(data, &layout, siphash24, &keys, &carrier, &key));
	return 0;
}
"""


def test_requirements_are_numbered() -> None:
    assert [int(number) for number in REQUIREMENTS] == list(range(1, len(REQUIREMENTS) + 1))
    # The others are in the sentence that introduces the numbers.
    assert len(re.findall(r"\bMUST\b", TEXT)) == len(REQUIREMENTS) + 2


@pytest.mark.parametrize("number", REQUIREMENTS)
def test_requirement_is_named_by_code_and_test(number: str) -> None:
    named = [
        path
        for path in map(str, SOURCES)
        if re.search(rf"\bMUST {number}\b", (TOP / path).read_text())
    ]
    assert any(path.startswith(CODE) for path in named), named
    assert any(path.startswith("tests/") for path in named), named


def test_vector(tmp_path: Path) -> None:
    (block,) = re.findall(r"\*\*Test vector\.\*\*.*?\n\n((?: {4}[^\n]*\n)+)", TEXT, re.DOTALL)
    data = bytes.fromhex(block)
    addresses = b"".join(ipaddress.ip_address(each).packed for each in ADDRESSES)
    first, second = re.findall(r"\| `([0-9a-f]{16})` \|", TEXT)
    assert f"{siphash(addresses, KEY):016x}" == first
    assert data[-8:].hex() == second
    found = read_packet(data)
    made = Packet(**{**vars(found), "options": b"", "key": KEY, "key_id": 7, "time": 1_800_000_000})
    assert made.pack(addresses) == data
    source, program = tmp_path / "verify.c", tmp_path / "verify"
    source.write_text(VERIFIER)
    include = [f"-I{TOP / 'include'}", f"-I{TOP}"]
    subprocess.run(["gcc", "-std=gnu11", *include, "-o", program, source], check=True)
    done = subprocess.run(
        [program], input=data.hex(), stdout=subprocess.PIPE, text=True, check=True
    )
    # Valid and authentic; changed, the hash is wrong.
    assert done.stdout == "0 0 3\n"
