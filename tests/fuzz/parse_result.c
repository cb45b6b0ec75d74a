// SPDX-License-Identifier: GPL-2.0
/*
 * What the parser of SLBN's packets says of files: each has a datagram's
 * payload, and for each is printed what is wrong with it, in a line.
 */
#include <stdio.h>
#include <stdlib.h>

#include <fairpath/slbn/slbn_wire.h>

static const char *const flaws[] = {
	[SLBN_PARSE_OK] = "sound",	    [SLBN_PARSE_TRUNCATED] = "short",
	[SLBN_PARSE_NOT_SLBN] = "strange",  [SLBN_PARSE_BAD_TYPE] = "type",
	[SLBN_PARSE_BAD_HOPS] = "hops",	    [SLBN_PARSE_BAD_RATE] = "rate",
	[SLBN_PARSE_BAD_OPTION] = "option",
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
		puts(flaws[slbn_parse_packet(data, size, &pkt, &layout)]);
	}
	return 0;
}
