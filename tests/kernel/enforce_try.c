// SPDX-License-Identifier: GPL-2.0
/*
 * slbnd's enforcement (userspace/slbnd/enforce.c and what it needs), done as standard
 * input says, for tests. Each line is answered by one:
 *
 *	open DEVICE...		ok, or refused: REASON
 *	close			ok
 *	set FLOW RATE		what enforce_set() returned
 *	remove FLOW		ok
 *	read FLOW		bytes packets drops last departure, or unknown
 *	fill COUNT RATE		flows to 10.0.0.0 and so on are set: how many could be,
 *				and what enforce_set() returned last
 *	empty COUNT		ok: these are removed
 *	crowd COUNT		ok: htb has only so many numbers left
 *	run TIMES LENGTH HEX	the program is run on a packet that takes LENGTH octets
 *				on the wire (0: as many as it has): what it said, or the
 *				error; and when the packet may leave, or 0
 *
 * FLOW is SOURCE DESTINATION PROTOCOL SOURCE-PORT DESTINATION-PORT; what is open is
 * "-" or 0. The departure is the BPF program's own note; 0 without it. It ends with
 * its input.
 */
#include "userspace/slbnd/edt.c"
#include "userspace/slbnd/enforce.c"
#include "userspace/slbnd/htb.c"
#include "userspace/slbnd/tc.c"

#define WORDS (ENFORCE_DEVICES + 2)

static struct enforce *enforce;

static void read_address(const char *word, struct slbn_flow *flow, u8 *to)
{
	if (!strcmp(word, "-"))
		return;
	flow->family = strchr(word, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(flow->family, word, to) != 1)
		exit(2);
}

static struct slbn_flow read_flow(char **words)
{
	struct slbn_flow flow = {
		.protocol = atoi(words[2]),
		.source_port = atoi(words[3]),
		.destination_port = atoi(words[4]),
	};

	read_address(words[0], &flow, flow.source);
	read_address(words[1], &flow, flow.destination);
	return flow;
}

static u64 departure(const struct slbn_flow *flow)
{
	struct rates_state state;
	struct rates_flow value;
	struct rates_key key;

	make_key(flow, &key);
	if (!enforce->edt ||
	    bpf_map_lookup_elem(flows_fd(enforce->edt), &key, &value) ||
	    bpf_map_lookup_elem(states_fd(enforce->edt), &value.place, &state))
		return 0;
	return state.departure;
}

static void read_use(const struct slbn_flow *flow)
{
	struct enforce_use use;

	if (!enforce_read(enforce, flow, &use)) {
		puts("unknown");
		return;
	}
	printf("%llu %llu %llu %llu %llu\n", (unsigned long long)use.bytes,
	       (unsigned long long)use.packets, (unsigned long long)use.drops,
	       (unsigned long long)use.last,
	       (unsigned long long)departure(flow));
}

static struct slbn_flow nth_flow(u32 n)
{
	struct slbn_flow flow = { .family = AF_INET };

	n = htonl(10 << 24 | n);
	memcpy(flow.destination, &n, sizeof(n));
	return flow;
}

static void fill(u32 count, u64 rate)
{
	struct slbn_flow flow;
	int error = 0;
	u32 n;

	for (n = 0; n < count && !error; n++) {
		flow = nth_flow(n);
		error = enforce_set(enforce, &flow, rate);
	}
	printf("%u %d\n", error ? n - 1 : n, error);
}

static void empty(u32 count)
{
	struct slbn_flow flow;
	u32 n;

	for (n = 0; n < count; n++) {
		flow = nth_flow(n);
		enforce_remove(enforce, &flow);
	}
	puts("ok");
}

static void crowd(struct htb *htb, u32 count)
{
	u32 n;

	for (n = NUMBERS - 1; n; n--) {
		if (htb->flows[n].taken)
			continue;
		if (count)
			count--;
		else
			htb->flows[n].taken = true;
	}
	puts("ok");
}

static void run(u32 times, u32 length, const char *hex)
{
	struct __sk_buff about = { .wire_len = length }, after = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .repeat = times, .ctx_in = &about,
		    .ctx_size_in = sizeof(about), .ctx_out = &after,
		    .ctx_size_out = sizeof(after));
	static u8 packet[65536];
	u32 octet;
	int error;

	for (; sscanf(hex, "%2x", &octet) == 1; hex += 2)
		packet[opts.data_size_in++] = octet;
	opts.data_in = packet;
	error = bpf_prog_test_run_opts(
		bpf_program__fd(enforce->edt->rates->progs.slbnd_rates), &opts);
	printf("%d %llu\n", error ?: (int)opts.retval,
	       (unsigned long long)after.tstamp);
}

static void obey(char **words, int count)
{
	const char *word = words[0];
	struct slbn_flow flow = {};
	char reason[256];

	if (count > 5)
		flow = read_flow(words + 1);
	if (!strcmp(word, "open")) {
		enforce = enforce_open((const char *const *)words + 1,
				       count - 1, reason, sizeof(reason));
		if (enforce)
			puts("ok");
		else
			printf("refused: %s\n", reason);
	} else if (!strcmp(word, "close")) {
		enforce_close(enforce);
		enforce = NULL;
		puts("ok");
	} else if (!strcmp(word, "set")) {
		printf("%d\n",
		       enforce_set(enforce, &flow, strtoull(words[6], 0, 10)));
	} else if (!strcmp(word, "remove")) {
		enforce_remove(enforce, &flow);
		puts("ok");
	} else if (!strcmp(word, "read")) {
		read_use(&flow);
	} else if (!strcmp(word, "fill")) {
		fill(atoi(words[1]), strtoull(words[2], 0, 10));
	} else if (!strcmp(word, "empty")) {
		empty(atoi(words[1]));
	} else if (!strcmp(word, "crowd")) {
		crowd(enforce->htb, atoi(words[1]));
	} else if (!strcmp(word, "run")) {
		run(atoi(words[1]), atoi(words[2]), words[3]);
	} else {
		exit(2);
	}
}

int main(void)
{
	static char line[1 << 17];

	setlinebuf(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char *words[WORDS] = {};
		int count = 0;
		char *word;

		for (word = strtok(line, " \n"); word && count < WORDS;
		     word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count)
			obey(words, count);
	}
	return 0;
}
