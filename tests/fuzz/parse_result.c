// SPDX-License-Identifier: GPL-2.0
/*
 * Print the parse result of SLBN packets: parse_result FILE... prints a line
 * for each file, whose contents are the payload of a datagram.
 */
#include <stdio.h>
#include <stdlib.h>

#include <fairpath/slbn/slbn_wire.h>

static const char *const names[] = {
	[SLBN_PARSE_OK] = "ok",
	[SLBN_PARSE_TRUNCATED] = "truncated",
	[SLBN_PARSE_NOT_SLBN] = "not_slbn",
	[SLBN_PARSE_BAD_VERSION] = "bad_version",
	[SLBN_PARSE_BAD_TYPE] = "bad_type",
	[SLBN_PARSE_BAD_HOPS] = "bad_hops",
	[SLBN_PARSE_BAD_RATE] = "bad_rate",
	[SLBN_PARSE_BAD_WEIGHT] = "bad_weight",
	[SLBN_PARSE_BAD_OPTION] = "bad_option",
};

int main(int argc, char **argv)
{
	for (argv++; argc > 1; argc--, argv++) {
		static u8 data[1 << 16];
		FILE *file = fopen(*argv, "rb");
		struct slbn_layout layout;
		struct slbn_packet pkt;
		size_t size;

		if (!file) {
			perror(*argv);
			return 1;
		}
		size = fread(data, 1, sizeof(data), file);
		fclose(file);
		puts(names[slbn_parse_packet(data, size, &pkt, &layout)]);
	}
	return 0;
}
