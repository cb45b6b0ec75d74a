// SPDX-License-Identifier: GPL-2.0
/*
 * Runs slbnd's rate enforcement (userspace/slbnd/enforcement/enforce.c) by commands from
 * standard input, for tests. Each line is answered by one:
 *
 *	open DEVICE...		ok, or the problem of the first device that has one
 *	check			the same, again
 *	close [keep]		ok
 *	pins DIRECTORY		ok: where maps are pinned, from the next open on
 *	unassigned RATE		ok: the rate of the default class (10^12 at first)
 *	backlog NS		ok: the longest time that a packet waits
 *	excess drop|unassigned	ok: what happens to packets above a rate (drop at first)
 *	rtt NS			ok: of the paths of flows that are set from now on
 *	pacer			packets that were dropped, dropped by CoDel, marked, and
 *				sent above a rate
 *	hosts [ADDRESS/LENGTH]	ok: the local hosts (all at first)
 *	windows on|off [ADDRESS/LENGTH]
 *				ok: lower windows (off at first), but not of this prefix
 *	marks on|off		ok: mark packets (off at first), with drr_fq's DSCPs
 *	marked			packets marked as new, as assigned, cleared, refused,
 *				restored
 *	domain [DEVICE,...]	ok: believe marks of packets from there (from nowhere)
 *	share FLOW RATE MS	ok: the share of its path, for MS from now
 *	sums			windows that were lowered, unknown and silent connections
 *	set FLOW RATE [MS [CEILING MS]]
 *				result of enforce_set(), with a lease of MS from now, or
 *				for ever, and a ceiling until MS from now
 *	remove FLOW		ok
 *	read FLOW		bytes packets drops marks last reached limited departure, or
 *				unknown
 *	counters FLOW		reached limited escaped acks dropped
 *	fill COUNT RATE		set flows to 10.0.0.0, 10.0.0.1...: how many succeeded,
 *				and the last result of enforce_set()
 *	empty COUNT		ok: these flows are removed
 *	crowd COUNT		ok: htb has only COUNT free numbers left
 *	run TIMES LENGTH HEX [INGRESS]
 *				run the BPF program on a packet with LENGTH octets on
 *				the wire (0: its own length) from the device INGRESS
 *				(default: from this router): the result or error, the
 *				departure time, or 0, and the packet then
 *	leave LENGTH HEX [INGRESS]
 *				run both programs at egress on a packet, in the same way
 *	arrive HEX		the program at ingress
 *	cost TIMES OFFSET FLIGHT SYN,ANSWER,DATA,ACK
 *				open a connection by these two packets, hexadecimal, with
 *				their TCP header at an offset, and send DATA as often as
 *				ACK acknowledges what was sent FLIGHT times before, 1:
 *				all: the mean duration of slbnd_rates, slbnd_sent and
 *				slbnd_windows, ns
 *
 * FLOW is SOURCE DESTINATION PROTOCOL SOURCE-PORT DESTINATION-PORT; open fields
 * are "-" or 0. The departure is that of the BPF program's state; 0 without it.
 */
#include <arpa/inet.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <fairpath/drr_fq.h>

#include "enforce_internal.h"
#include "htb_internal.h"
#include "rates.skel.h"

#define WORDS (ENFORCE_DEVICES + 2)
#define FOREVER (~0ULL)

static struct enforce *enforce;
/* Of some flow. */
static u32 hint;
static u64 rtt;
static struct flows_prefix host, excepted;
static struct enforce_config config = {
	.unassigned = 1000000000000,
	.backlog = ENFORCE_QUEUE,
	.hosts = &host,
	.windows.excepted = &excepted,
	.marks.new = DRR_FQ_BANDS_MARK_NEW_DEFAULT,
	.marks.assigned = DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT,
	.flows = 4096,
	.connections = CONNECTIONS_MIN
};

static void read_address(const char *word, struct slbn_flow *flow, u8 *to)
{
	if (!strcmp(word, "-"))
		return;
	flow->family = strchr(word, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(flow->family, word, to) != 1)
		exit(2);
}

/* Read a prefix, or none. Returns the number of them. */
static u32 read_prefix(char *word, struct flows_prefix *prefix)
{
	char *slash = word ? strchr(word, '/') : NULL;

	if (!slash)
		return 0;
	*slash = 0;
	*prefix = (struct flows_prefix){
		.family = strchr(word, ':') ? AF_INET6 : AF_INET,
		.length = atoi(slash + 1),
	};
	if (inet_pton(prefix->family, word, prefix->address) != 1)
		exit(2);
	return 1;
}

static void report(void)
{
	const char *problem = NULL;
	u32 n;

	for (n = 0; n < enforce->device_count && !problem; n++)
		problem = enforce_problem(enforce, n);
	puts(problem ?: "ok");
}

/* So that the same sources and flows share a bucket in each run. */
static void fix_secrets(u64 *secrets, size_t size)
{
	u64 secret = 0;

	for (; size; size -= sizeof(secret))
		*secrets++ = secret = secret * 6364136223846793005 + 1;
}

static void fix_all_secrets(void)
{
	struct rates__bss *bss;

	if (!enforce->edt)
		return;
	bss = enforce->edt->rates->bss;
	fix_secrets(bss->source_secret, sizeof(bss->source_secret));
	fix_secrets(bss->flow_secret, sizeof(bss->flow_secret));
}

static void configure(void)
{
	if (enforce)
		enforce_configure(enforce, &config);
	puts("ok");
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
	const struct rates *rates;
	struct rates_key key;
	u32 slot;

	if (!enforce->edt)
		return 0;
	rates = enforce->edt->rates;
	enforce_key(flow, &key);
	if (bpf_map_lookup_elem(bpf_map__fd(rates->maps.flows), &key, &slot) ||
	    bpf_map_lookup_elem(bpf_map__fd(rates->maps.states), &slot, &state))
		return 0;
	return state.departure;
}

static void read_use(const struct slbn_flow *flow)
{
	struct enforce_use use;

	if (!enforce_read(enforce, flow, &hint, &use)) {
		puts("unknown");
		return;
	}
	printf("%llu %llu %llu %llu %llu %llu %llu %llu\n",
	       (unsigned long long)use.bytes, (unsigned long long)use.packets,
	       (unsigned long long)use.drops, (unsigned long long)use.marks,
	       (unsigned long long)use.last, (unsigned long long)use.reached,
	       (unsigned long long)use.limited,
	       (unsigned long long)departure(flow));
}

static void read_counters(const struct slbn_flow *flow)
{
	struct ceiling_counters counters;

	if (!enforce_read_counters(enforce, flow, &hint, &counters)) {
		puts("unknown");
		return;
	}
	printf("%llu %llu %llu %llu %llu\n",
	       (unsigned long long)counters.reached,
	       (unsigned long long)counters.limited,
	       (unsigned long long)counters.escaped,
	       (unsigned long long)counters.acks,
	       (unsigned long long)counters.dropped);
}

static void print_sums(void)
{
	struct windows_sums sums = enforce_read_sums(enforce).windows;

	printf("%llu %llu %llu\n", (unsigned long long)sums.lowered,
	       (unsigned long long)sums.unknown,
	       (unsigned long long)sums.silent);
}

static void print_marks(void)
{
	struct marks_sums sums = enforce_read_sums(enforce).bands;

	printf("%llu %llu %llu %llu %llu\n", (unsigned long long)sums.starts,
	       (unsigned long long)sums.assigned,
	       (unsigned long long)sums.cleared,
	       (unsigned long long)sums.refused,
	       (unsigned long long)sums.restored);
}

static void set_domain(char *devices)
{
	struct marks_config *marks = &config.marks;
	const char *device = devices ? strtok(devices, ",") : NULL;

	for (marks->count = 0; device && marks->count < MARKS_DEVICES;
	     device = strtok(NULL, ","))
		snprintf(marks->domain[marks->count++], MARKS_NAME, "%s",
			 device);
	configure();
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
	const struct enforce_limit limit = { .rate = rate, .lease = FOREVER };
	struct slbn_flow flow;
	int error = 0;
	u32 n;

	for (n = 0; n < count && !error; n++) {
		flow = nth_flow(n);
		error = enforce_set(enforce, &flow, &limit, &hint);
	}
	printf("%u %d\n", error ? n - 1 : n, error);
}

static u64 clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static u64 from_now(const char *ms)
{
	return clock_now() + strtoull(ms, NULL, 10) * 1000000;
}

/* The rate, until its lease ends, the ceiling, and until then. */
static void set(const struct slbn_flow *flow, char **words)
{
	struct enforce_limit limit = { .rate = strtoull(words[0], NULL, 10),
				       .lease = FOREVER,
				       .rtt = rtt };

	if (words[1])
		limit.lease = from_now(words[1]);
	if (words[1] && words[2] && words[3]) {
		limit.ceiling = strtoull(words[2], NULL, 10);
		limit.until = from_now(words[3]);
	}
	printf("%d\n", enforce_set(enforce, flow, &limit, &hint));
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

	for (n = HTB_NUMBERS - 1; n; n--) {
		if (htb->flows[n].in_use)
			continue;
		if (count)
			count--;
		else
			htb->flows[n].in_use = true;
	}
	puts("ok");
}

static void print_pacer(void)
{
	struct enforce_sums sums = enforce_read_sums(enforce);

	printf("%llu %llu %llu %llu\n", (unsigned long long)sums.drops,
	       (unsigned long long)sums.signals, (unsigned long long)sums.marks,
	       (unsigned long long)sums.excess);
}

static void run(u32 times, u32 length, const char *hex, u32 ingress)
{
	struct __sk_buff about = {
		.wire_len = length,
		.ingress_ifindex = ingress,
		.ifindex = enforce->devices[0].index,
	};
	struct __sk_buff after = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .repeat = times, .ctx_in = &about,
		    .ctx_size_in = sizeof(about), .ctx_out = &after,
		    .ctx_size_out = sizeof(after));
	static u8 packet[65536], made[65536];
	u32 octet, n;
	int error;

	for (; sscanf(hex, "%2x", &octet) == 1; hex += 2)
		packet[opts.data_size_in++] = octet;
	opts.data_in = packet;
	opts.data_out = made;
	opts.data_size_out = sizeof(made);
	error = bpf_prog_test_run_opts(
		bpf_program__fd(enforce->edt->rates->progs.slbnd_rates), &opts);
	printf("%d %llu ", error ?: (int)opts.retval,
	       (unsigned long long)after.tstamp);
	for (n = 0; n < opts.data_size_out; n++)
		printf("%02x", made[n]);
	puts(opts.data_size_out ? "" : "-");
}

/**
 * struct trial - a packet, and a program that runs on it
 * @program: the program
 * @handed: word that programs hand over, changed
 * @packet: the packet
 * @length: octets
 */
struct trial {
	const struct bpf_program *program;
	u32 handed;
	u8 packet[2048];
	u32 length;
};

static struct trial read_trial(const struct bpf_program *program,
			       const char *hex)
{
	struct trial trial = { .program = program };
	u32 octet;

	for (; sscanf(hex, "%2x", &octet) == 1; hex += 2)
		trial.packet[trial.length++] = octet;
	return trial;
}

/* Run it once. Returns its duration, ns; ends the program if it fails. */
static u32 try_once(struct trial *trial)
{
	struct __sk_buff about = {
		.ifindex = enforce->devices[0].index,
		.cb[0] = trial->handed,
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = trial->packet,
		    .data_size_in = trial->length, .ctx_in = &about,
		    .ctx_size_in = sizeof(about), .ctx_out = &about,
		    .ctx_size_out = sizeof(about), .repeat = 1);

	if (bpf_prog_test_run_opts(bpf_program__fd(trial->program), &opts) ||
	    (int)opts.retval == TC_ACT_SHOT)
		exit(1);
	trial->handed = about.cb[0];
	return opts.duration;
}

/* Run a program with what an earlier one has handed over. Returns the packet's length. */
static u32 try_program(const struct bpf_program *program,
		       struct __sk_buff *about, u8 *packet, u32 length)
{
	static u8 made[65536];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet,
		    .data_size_in = length, .data_out = made,
		    .data_size_out = sizeof(made), .ctx_in = about,
		    .ctx_size_in = sizeof(*about), .ctx_out = about,
		    .ctx_size_out = sizeof(*about), .repeat = 1);
	int error = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	if (error)
		exit(3);
	memcpy(packet, made, opts.data_size_out);
	about->priority = opts.retval;
	return opts.data_size_out;
}

static void show_try(const struct __sk_buff *about, const u8 *packet,
		     u32 length)
{
	u32 n;

	printf("%d %llu ", (int)about->priority,
	       (unsigned long long)about->tstamp);
	for (n = 0; n < length; n++)
		printf("%02x", packet[n]);
	puts(length ? "" : "-");
}

static void leave(u32 wire_length, const char *hex, u32 ingress)
{
	struct __sk_buff about = {
		.wire_len = wire_length,
		.ingress_ifindex = ingress,
		.ifindex = enforce->devices[0].index,
	};
	struct rates *rates = enforce->edt->rates;
	static u8 packet[65536];
	u32 length = 0, octet;

	for (; sscanf(hex, "%2x", &octet) == 1; hex += 2)
		packet[length++] = octet;
	length = try_program(rates->progs.slbnd_rates, &about, packet, length);
	if ((int)about.priority != TC_ACT_SHOT) {
		about.priority = 0;
		length = try_program(rates->progs.slbnd_sent, &about, packet,
				     length);
	}
	show_try(&about, packet, length);
}

static void arrive(const char *hex)
{
	struct __sk_buff about = { .ifindex = enforce->devices[0].index };
	static u8 packet[65536];
	u32 length = 0, octet;

	for (; sscanf(hex, "%2x", &octet) == 1; hex += 2)
		packet[length++] = octet;
	length = try_program(enforce->edt->rates->progs.slbnd_windows, &about,
			     packet, length);
	show_try(&about, packet, length);
}

static void add_word(u8 *at, u32 octets)
{
	u32 word;

	memcpy(&word, at, sizeof(word));
	word = htonl(ntohl(word) + octets);
	memcpy(at, &word, sizeof(word));
}

static void try_leaving(struct trial *packet, u64 *sums)
{
	struct rates *rates = enforce->edt->rates;

	packet->program = rates->progs.slbnd_rates;
	packet->handed = 0;
	sums[0] += try_once(packet);
	packet->program = rates->progs.slbnd_sent;
	sums[1] += try_once(packet);
}

/* Windows are small until the round-trip time is measured. */
static void show_cost(u32 times, u32 offset, u32 flight, char *list)
{
	const char *hex[] = { strtok(list, ","), strtok(NULL, ","),
			      strtok(NULL, ","), strtok(NULL, ",") };
	const struct bpf_program *windows =
		enforce->edt->rates->progs.slbnd_windows;
	struct trial data = read_trial(windows, hex[2]);
	struct trial ack = read_trial(windows, hex[3]);
	struct trial syn = read_trial(windows, hex[0]);
	struct trial answer = read_trial(windows, hex[1]);
	u32 octets = data.length - offset - (data.packet[offset + 12] >> 4) * 4;
	const u32 warm = 16 + flight;
	u64 sums[3] = {};
	u32 n;

	try_leaving(&syn, sums);
	try_once(&answer);
	for (n = 0; n < warm + times; n++) {
		u16 field = htons(n < warm ? 50 : 60000);

		if (n == warm)
			memset(sums, 0, sizeof(sums));
		try_leaving(&data, sums);
		add_word(data.packet + offset + 4, octets);
		if (n + 1 < flight)
			continue;
		add_word(ack.packet + offset + 8, octets);
		memcpy(ack.packet + offset + 14, &field, sizeof(field));
		sums[2] += try_once(&ack);
	}
	for (n = 0; n < 3; n++)
		printf("%.2f%c", (double)sums[n] / times, n < 2 ? ' ' : '\n');
}

static void run_command(char **words, int count)
{
	const char *word = words[0];
	struct slbn_flow flow = {};

	if (count > 5)
		flow = read_flow(words + 1);
	if (!strcmp(word, "open")) {
		enforce = enforce_open((const char *const *)words + 1,
				       count - 1, &config);
		fix_all_secrets();
		report();
	} else if (!strcmp(word, "check")) {
		enforce_check(enforce);
		report();
	} else if (!strcmp(word, "close")) {
		enforce_close(enforce,
			      words[1] ? ENFORCE_HAND_OVER : ENFORCE_REMOVE);
		enforce = NULL;
		puts("ok");
	} else if (!strcmp(word, "unassigned")) {
		config.unassigned = strtoull(words[1], NULL, 10);
		configure();
	} else if (!strcmp(word, "backlog")) {
		config.backlog = strtoull(words[1], NULL, 10);
		configure();
	} else if (!strcmp(word, "rtt")) {
		rtt = strtoull(words[1], NULL, 10);
		puts("ok");
	} else if (!strcmp(word, "pacer")) {
		print_pacer();
	} else if (!strcmp(word, "excess")) {
		config.excess = !strcmp(words[1], "unassigned");
		configure();
	} else if (!strcmp(word, "pins")) {
		config.pins = strdup(words[1]);
		puts("ok");
	} else if (!strcmp(word, "hosts")) {
		config.host_count = read_prefix(words[1], &host);
		configure();
	} else if (!strcmp(word, "windows")) {
		config.windows.on = !strcmp(words[1], "on");
		config.windows.count = read_prefix(words[2], &excepted);
		configure();
	} else if (!strcmp(word, "sums")) {
		print_sums();
	} else if (!strcmp(word, "marks")) {
		config.marks.on = !strcmp(words[1], "on");
		configure();
	} else if (!strcmp(word, "marked")) {
		print_marks();
	} else if (!strcmp(word, "domain")) {
		set_domain(words[1]);
	} else if (!strcmp(word, "share")) {
		enforce_set_share(enforce, &flow, strtoull(words[6], NULL, 10),
				  from_now(words[7]));
		puts("ok");
	} else if (!strcmp(word, "set")) {
		set(&flow, words + 6);
	} else if (!strcmp(word, "remove")) {
		enforce_remove(enforce, &flow);
		puts("ok");
	} else if (!strcmp(word, "read")) {
		read_use(&flow);
	} else if (!strcmp(word, "counters")) {
		read_counters(&flow);
	} else if (!strcmp(word, "fill")) {
		fill(atoi(words[1]), strtoull(words[2], 0, 10));
	} else if (!strcmp(word, "empty")) {
		empty(atoi(words[1]));
	} else if (!strcmp(word, "crowd")) {
		crowd(enforce->htb, atoi(words[1]));
	} else if (!strcmp(word, "run")) {
		run(atoi(words[1]), atoi(words[2]), words[3],
		    words[4] ? atoi(words[4]) : 0);
	} else if (!strcmp(word, "leave")) {
		leave(atoi(words[1]), words[2], words[3] ? atoi(words[3]) : 0);
	} else if (!strcmp(word, "arrive")) {
		arrive(words[1]);
	} else if (!strcmp(word, "cost")) {
		show_cost(atoi(words[1]), atoi(words[2]), atoi(words[3]),
			  words[4]);
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
			run_command(words, count);
	}
	return 0;
}
