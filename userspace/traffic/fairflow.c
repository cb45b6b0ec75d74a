// SPDX-License-Identifier: GPL-2.0
/*
 * fairflow - a few flows, exactly as an experiment wants them, and watched
 *
 *	fairtraffic sink --port 5000 --output sink.json
 *	fairflow --every 0.1 --output flows.fair
 *		 to=10.0.0.2,port=5000,cc=bic,start=0,stop=60
 *		 to=10.0.0.2,port=5000,cc=reno,start=10,stop=60,bytes=1e9
 *
 * Each flow is TCP under a congestion control of its own, or UDP at a rate; it
 * begins and ends at given times, or when so many bytes have arrived; and it
 * may pause (on=, off=), for times that are fixed or drawn at random.
 *
 * All flows of a program are looked at by TCP_INFO at fixed times. That takes
 * the lock of the socket for a moment, and changes nothing. In a kernel in
 * virtual time it takes no time at all. What was seen is kept in memory and
 * written at the end to one file: a line of JSON that says what there is and
 * how it went, and then rows of numbers, as the line describes them.
 *
 * A system call is dear in the kernels where this runs (User-Mode Linux: two
 * switches of process), so a flow is a thread that hands the kernel a megabyte
 * and more at a time and sleeps until that has gone; the kernel wakes it when
 * there is room, without any call. What limits it is TCP alone.
 *
 * A flow that ends by its time is cut off (RST): what is still in its queue
 * belongs to nobody. One that ends by its size waits until the sink says what
 * it has got, so its end is when the last byte was there.
 *
 * Times are seconds after the beginning: --begin, by CLOCK_MONOTONIC, so that
 * several of these can begin together; otherwise when it was started.
 *
 * Exit status: 0; 1 if something broke; 2 for arguments that make no sense.
 */
#define _GNU_SOURCE

#include <endian.h>
#include <getopt.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROGRAM "fairflow"

#include "common.h"
#include "draw.h"

#define FLOWS_MAX 1024
#define NAME_MAX_CC 16
#define CHUNK (4 << 20)
#define PACKET_MIN 8
#define PACKET_MAX 65507
#define SECONDS_MAX 86400.0

enum law {
	FIXED,
	EXPONENTIAL,
	PARETO
};

/* How long something lasts: seconds, and how they are drawn. */
struct duration {
	enum law law;
	double mean; /* 0: there is no such thing */
	double shape;
};

enum state {
	WAITING,
	OPEN,
	ENDED
};

/*
 * A flow: what is wanted, and what became of it. Times in ns after the
 * beginning.
 */
struct flow {
	struct sockaddr_in to;
	uint16_t from;
	bool udp;
	char cc[NAME_MAX_CC];
	double start, stop;
	uint64_t bytes; /* TCP: to be sent; 0: until the end */
	double rate; /* bit/s of user's data: UDP's, or the most of TCP; 0: any */
	unsigned int size; /* of a packet */
	struct duration on, off;

	struct draw draw;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	enum state state;
	int fd;
	uint64_t began, ended;
	uint64_t sent; /* bytes handed to the kernel */
	bool complete; /* all bytes have arrived */
	uint64_t segments, lost; /* when complete */
	struct tcp_info last;
};

/*
 * A look at a flow. The file's first line names these and their types, in this
 * order; there are no gaps.
 */
struct row {
	uint64_t time; /* ns */
	uint64_t acked; /* bytes */
	uint64_t delivery; /* bytes/s, TCP's own estimate */
	uint32_t flow;
	uint32_t cwnd; /* segments */
	uint32_t ssthresh;
	uint32_t unacked;
	uint32_t rtt; /* us, smoothed */
	uint32_t rtt_min;
	uint32_t state; /* enum tcp_ca_state */
	uint32_t segments; /* with data, sent so far */
	uint32_t retransmits; /* of these, sent again */
	uint32_t duplicates; /* of these, that the other end had (D-SACK) */
	uint32_t rto; /* us */
	uint32_t timeouts; /* since anything was acked */
};

static const char row_fields[] =
	"[[\"time\", \"<u8\"], [\"acked\", \"<u8\"], [\"delivery\", \"<u8\"],"
	" [\"flow\", \"<u4\"], [\"cwnd\", \"<u4\"], [\"ssthresh\", \"<u4\"],"
	" [\"unacked\", \"<u4\"], [\"rtt\", \"<u4\"], [\"rtt_min\", \"<u4\"],"
	" [\"state\", \"<u4\"], [\"segments\", \"<u4\"],"
	" [\"retransmits\", \"<u4\"], [\"duplicates\", \"<u4\"],"
	" [\"rto\", \"<u4\"], [\"timeouts\", \"<u4\"]]";

static struct flow flows[FLOWS_MAX];
static unsigned int count;
static uint64_t begin; /* ns */
static char data[CHUNK];

/* ------------------------------------------------------------------------ */
/* Time                                                                     */

static uint64_t elapsed(void)
{
	uint64_t time = now();

	return time > begin ? time - begin : 0;
}

static uint64_t nanoseconds(double seconds)
{
	return seconds * (double)NSEC_PER_SEC;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void sleep_until(uint64_t time)
{
	struct timespec when = {
		.tv_sec = (begin + time) / NSEC_PER_SEC,
		.tv_nsec = (begin + time) % NSEC_PER_SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) ==
		       EINTR &&
	       !stopped)
		;
}

static uint64_t draw_duration(struct flow *flow, const struct duration *wanted)
{
	double seconds = wanted->mean;

	if (wanted->law == EXPONENTIAL)
		seconds = draw_exponential(&flow->draw, wanted->mean);
	else if (wanted->law == PARETO)
		seconds = draw_pareto(&flow->draw, wanted->mean, wanted->shape);
	return nanoseconds(seconds < SECONDS_MAX ? seconds : SECONDS_MAX);
}

/* ------------------------------------------------------------------------ */
/* A flow                                                                   */

static unsigned int number_of(const struct flow *flow)
{
	return flow - flows + 1;
}

#define flow_broken(flow, what) broken("flow %u: %s: %m", number_of(flow), what)

static void set_option(struct flow *flow, int level, int option,
		       const void *value, socklen_t size, const char *name)
{
	if (setsockopt(flow->fd, level, option, value, size))
		flow_broken(flow, name);
}

/* How long a send may take, until TIME. Return: is there any time left? */
static bool give_time(struct flow *flow, uint64_t time)
{
	uint64_t at = elapsed();
	uint64_t left = time > at ? time - at : 0;
	struct timeval limit = {
		.tv_sec = left / NSEC_PER_SEC,
		.tv_usec = left % NSEC_PER_SEC / 1000,
	};

	if (!limit.tv_sec && !limit.tv_usec)
		return false;
	set_option(flow, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit),
		   "SO_SNDTIMEO");
	return true;
}

static void open_flow(struct flow *flow)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons(flow->from),
	};
	char cc[NAME_MAX_CC] = "";
	socklen_t size = sizeof(cc);
	unsigned long pace = flow->rate / 8;
	int one = 1;

	flow->fd = socket(AF_INET,
			  (flow->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC,
			  0);
	if (flow->fd < 0)
		flow_broken(flow, "socket");
	set_option(flow, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one),
		   "SO_REUSEADDR");
	if (flow->from && bind(flow->fd, (struct sockaddr *)&own, sizeof(own)))
		flow_broken(flow, "bind");
	if (*flow->cc)
		set_option(flow, IPPROTO_TCP, TCP_CONGESTION, flow->cc,
			   strlen(flow->cc), flow->cc);
	if (pace && !flow->udp)
		set_option(flow, SOL_SOCKET, SO_MAX_PACING_RATE, &pace,
			   sizeof(pace), "SO_MAX_PACING_RATE");
	if (connect(flow->fd, (struct sockaddr *)&flow->to, sizeof(flow->to)))
		flow_broken(flow, "connect");
	/* Nobody must have put another in its place. */
	if (*flow->cc &&
	    (getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, cc, &size) ||
	     strcmp(cc, flow->cc)))
		broken("flow %u: asked for %s, got %s", number_of(flow),
		       flow->cc, cc);
}

static bool timed_out(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ||
	       errno == EINPROGRESS;
}

/* Send until TIME or the end. Return: is everything sent? */
static bool send_bytes(struct flow *flow, uint64_t time)
{
	while (!stopped && (!flow->bytes || flow->sent < flow->bytes)) {
		uint64_t left = flow->bytes - flow->sent;
		ssize_t sent;

		if (!give_time(flow, time))
			return false;
		sent = send(flow->fd, data,
			    flow->bytes && left < CHUNK ? left : CHUNK,
			    MSG_NOSIGNAL);
		if (sent < 0 && !timed_out())
			flow_broken(flow, "send");
		if (sent > 0)
			flow->sent += sent;
	}
	return flow->bytes && flow->sent == flow->bytes;
}

/* Packets at the flow's rate until TIME. */
static void send_packets(struct flow *flow, uint64_t time)
{
	double interval = flow->size * 8e9 / flow->rate;
	double due = elapsed();

	while (!stopped && (uint64_t)due < time) {
		uint64_t stamp;
		char packet[PACKET_MAX] = "";

		sleep_until(due);
		stamp = htobe64(now());
		memcpy(packet, &stamp, sizeof(stamp));
		/* A sink that is not there any more is no matter to UDP. */
		if (send(flow->fd, packet, flow->size, 0) > 0)
			flow->sent += flow->size;
		due += interval;
	}
}

/* All is sent: wait for what the sink says. */
static void finish(struct flow *flow)
{
	struct answer answer;

	if (shutdown(flow->fd, SHUT_WR))
		flow_broken(flow, "shutdown");
	if (recv(flow->fd, &answer, sizeof(answer), MSG_WAITALL) !=
	    sizeof(answer)) {
		if (stopped)
			return;
		broken("flow %u: the sink closed before its end",
		       number_of(flow));
	}
	if (be64toh(answer.bytes) != flow->bytes)
		broken("flow %u: the sink got %llu bytes of %llu",
		       number_of(flow),
		       (unsigned long long)be64toh(answer.bytes),
		       (unsigned long long)flow->bytes);
	flow->complete = true;
	flow->segments = be64toh(answer.segments);
}

static void look(struct flow *flow, struct tcp_info *info)
{
	socklen_t size = sizeof(*info);

	memset(info, 0, sizeof(*info));
	if (!flow->udp &&
	    getsockopt(flow->fd, IPPROTO_TCP, TCP_INFO, info, &size))
		flow_broken(flow, "TCP_INFO");
}

/* Its end, if it has not come yet. */
static void close_flow(struct flow *flow)
{
	struct linger at_once = { .l_onoff = 1 };

	pthread_mutex_lock(&flow->lock);
	if (flow->state == OPEN) {
		look(flow, &flow->last);
		flow->ended = elapsed();
		if (flow->complete)
			flow->lost =
				flow->last.tcpi_data_segs_out - flow->segments;
		else
			setsockopt(flow->fd, SOL_SOCKET, SO_LINGER, &at_once,
				   sizeof(at_once));
		close(flow->fd);
	}
	flow->state = ENDED;
	pthread_mutex_unlock(&flow->lock);
}

static void *run_flow(void *argument)
{
	struct flow *flow = argument;
	uint64_t last = nanoseconds(flow->stop);
	bool done = false;

	sleep_until(nanoseconds(flow->start));
	if (stopped)
		return NULL;
	open_flow(flow);
	pthread_mutex_lock(&flow->lock);
	flow->began = elapsed();
	flow->state = OPEN;
	pthread_mutex_unlock(&flow->lock);

	while (!done && !stopped && elapsed() < last) {
		uint64_t until = last, pause = 0;

		if (flow->on.mean) {
			until = earlier(last,
					elapsed() +
						draw_duration(flow, &flow->on));
			pause = draw_duration(flow, &flow->off);
		}
		if (flow->udp)
			send_packets(flow, until);
		else
			done = send_bytes(flow, until);
		/* Also if so little time is left that no send is given any. */
		if (!done)
			sleep_until(earlier(last, until + pause));
	}
	if (done)
		finish(flow);
	close_flow(flow);
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* Looking at them                                                          */

struct rows {
	struct row *row;
	size_t count;
};

static void take_row(struct rows *rows, struct flow *flow, uint64_t time)
{
	struct tcp_info info;

	pthread_mutex_lock(&flow->lock);
	if (flow->state == OPEN && !flow->udp) {
		look(flow, &info);
		rows->row = grow(rows->row, rows->count, sizeof(*rows->row));
		rows->row[rows->count++] = (struct row){
			.time = htole64(time),
			.acked = htole64(info.tcpi_bytes_acked),
			.delivery = htole64(info.tcpi_delivery_rate),
			.flow = htole32(flow - flows),
			.cwnd = htole32(info.tcpi_snd_cwnd),
			.ssthresh = htole32(info.tcpi_snd_ssthresh),
			.unacked = htole32(info.tcpi_unacked),
			.rtt = htole32(info.tcpi_rtt),
			.rtt_min = htole32(info.tcpi_min_rtt),
			.state = htole32(info.tcpi_ca_state),
			.segments = htole32(info.tcpi_data_segs_out),
			.retransmits = htole32(info.tcpi_total_retrans),
			.duplicates = htole32(info.tcpi_dsack_dups),
			.rto = htole32(info.tcpi_rto),
			.timeouts = htole32(info.tcpi_retransmits),
		};
	}
	pthread_mutex_unlock(&flow->lock);
}

static bool all_ended(void)
{
	unsigned int n;
	bool ended = true;

	for (n = 0; n < count; n++) {
		pthread_mutex_lock(&flows[n].lock);
		ended &= flows[n].state == ENDED;
		pthread_mutex_unlock(&flows[n].lock);
	}
	return ended;
}

static void watch_flows(struct rows *rows, double every)
{
	uint64_t step = nanoseconds(every), due;
	unsigned int n;

	for (due = step; !stopped && !all_ended(); due += step) {
		sleep_until(due);
		for (n = 0; n < count; n++)
			take_row(rows, &flows[n], elapsed());
	}
}

static void write_flow(FILE *file, const struct flow *flow)
{
	char to[INET_ADDRSTRLEN] = "";

	inet_ntop(AF_INET, &flow->to.sin_addr, to, sizeof(to));
	fprintf(file,
		"{\"to\": \"%s\", \"port\": %u, \"from\": %u, \"kind\": \"%s\","
		" \"began\": %.9f, \"ended\": %.9f, \"sent\": %llu",
		to, ntohs(flow->to.sin_port), flow->from,
		flow->udp ? "udp" : flow->cc, flow->began * 1e-9,
		flow->ended * 1e-9, (unsigned long long)flow->sent);
	if (!flow->udp)
		fprintf(file,
			", \"acked\": %llu, \"segments\": %u, \"retransmits\": %u",
			(unsigned long long)flow->last.tcpi_bytes_acked,
			flow->last.tcpi_data_segs_out,
			flow->last.tcpi_total_retrans);
	if (flow->complete)
		fprintf(file, ", \"lost\": %llu",
			(unsigned long long)flow->lost);
	fputc('}', file);
}

static void write_all(const char *path, const struct rows *rows, double every)
{
	FILE *file = path ? fopen(path, "we") : stdout;
	unsigned int n;

	if (!file)
		broken("%s: %m", path);
	fprintf(file,
		"{\"fairflow\": 1, \"begin\": %.9f, \"every\": %g, \"flows\": [",
		begin * 1e-9, every);
	for (n = 0; n < count; n++) {
		fputs(n ? ", " : "", file);
		write_flow(file, &flows[n]);
	}
	fprintf(file, "], \"rows\": %zu, \"fields\": %s}\n", rows->count,
		row_fields);
	fwrite(rows->row, sizeof(*rows->row), rows->count, file);
	if (ferror(file) | fclose(file))
		broken("%s: %m", path ?: "stdout");
}

/* ------------------------------------------------------------------------ */
/* Arguments                                                                */

static const char usage[] =
	"usage: fairflow [--output FILE] [--every SECONDS] [--begin SECONDS] [--seed N] FLOW...\n"
	"\n"
	"Send flows to sinks (fairtraffic sink), look at them, and write what was seen.\n"
	"\n"
	"  --output FILE     what was seen: a line of JSON, then rows as it says (stdout)\n"
	"  --every SECONDS   between two looks (0.1)\n"
	"  --begin SECONDS   when times begin, by CLOCK_MONOTONIC (now)\n"
	"  --seed N          of what is drawn at random (1)\n"
	"\n"
	"FLOW is words with commas between; needed are to, port and stop:\n"
	"  to=ADDRESS port=N the sink's\n"
	"  from=N            own port (any)\n"
	"  cc=NAME           congestion control (the system's)\n"
	"  udp=RATE size=N   packets of N bytes (1000) at RATE bit/s, no TCP\n"
	"  start=S stop=S    seconds after the beginning (0 to stop)\n"
	"  bytes=N           it ends when so many have arrived, whenever that is\n"
	"  rate=RATE         most that TCP sends, bit/s\n"
	"  on=TIME off=TIME  sends and pauses in turns; TIME is seconds,\n"
	"                    exp:MEAN or pareto:SHAPE:MEAN\n"
	"\n"
	"Exit status: 0; 1 something broke; 2 arguments that make no sense.\n";

static struct duration duration_named(const char *name, const char *text)
{
	struct duration found = { FIXED };
	const char *rest = text;
	char shape[16] = "";

	if (sscanf(text, "pareto:%15[0-9.]:", shape) == 1 &&
	    strchr(text + 7, ':')) {
		found.law = PARETO;
		found.shape = number(name, shape, 1.01, 100);
		rest = strchr(text + 7, ':') + 1;
	} else if (!strncmp(text, "exp:", 4)) {
		found.law = EXPONENTIAL;
		rest = text + 4;
	}
	found.mean = number(name, rest, 1e-6, SECONDS_MAX);
	return found;
}

static void take_word(struct flow *flow, const char *name, const char *value)
{
	if (!strcmp(name, "to")) {
		flow->to.sin_addr = address_named(name, value);
	} else if (!strcmp(name, "port")) {
		flow->to.sin_port = htons(whole_number(name, value, 1, 65535));
	} else if (!strcmp(name, "from")) {
		flow->from = whole_number(name, value, 1, 65535);
	} else if (!strcmp(name, "cc")) {
		if (!*value || strlen(value) >= sizeof(flow->cc))
			refuse("cc '%s': no such name", value);
		strcpy(flow->cc, value);
	} else if (!strcmp(name, "udp")) {
		flow->udp = true;
		flow->rate = number(name, value, 8, 1e12);
	} else if (!strcmp(name, "size")) {
		flow->size = whole_number(name, value, PACKET_MIN, PACKET_MAX);
	} else if (!strcmp(name, "start")) {
		flow->start = number(name, value, 0, SECONDS_MAX);
	} else if (!strcmp(name, "stop")) {
		flow->stop = number(name, value, 1e-3, SECONDS_MAX);
	} else if (!strcmp(name, "bytes")) {
		flow->bytes = whole_number(name, value, 1, 1e15);
	} else if (!strcmp(name, "rate")) {
		flow->rate = number(name, value, 8, 1e12);
	} else if (!strcmp(name, "on")) {
		flow->on = duration_named(name, value);
	} else if (!strcmp(name, "off")) {
		flow->off = duration_named(name, value);
	} else {
		refuse("'%s': no such word of a flow; see --help", name);
	}
}

static void take_flow(char *text, uint64_t seed)
{
	struct flow *flow = &flows[count];
	bool rate = false;
	char *word;

	if (count == FLOWS_MAX)
		refuse("at most %d flows", FLOWS_MAX);
	*flow = (struct flow){
		.to.sin_family = AF_INET,
		.fd = -1,
		.draw = draw_start(seed, count),
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	count++;
	while ((word = strsep(&text, ","))) {
		char *value = strchr(word, '=');

		if (!value)
			refuse("flow %u: '%s' is not NAME=VALUE", count, word);
		*value++ = '\0';
		rate |= !strcmp(word, "rate");
		take_word(flow, word, value);
	}
	if (!flow->to.sin_addr.s_addr || !flow->to.sin_port || !flow->stop)
		refuse("flow %u: needs to=, port= and stop=", count);
	if (flow->start >= flow->stop)
		refuse("flow %u: stops before it starts", count);
	if (flow->udp && (flow->bytes || *flow->cc || rate))
		refuse("flow %u: UDP has no bytes=, cc= or rate=", count);
	if (!flow->udp && flow->size)
		refuse("flow %u: size= is for UDP", count);
	if (!flow->on.mean != !flow->off.mean)
		refuse("flow %u: on= and off= belong together", count);
	if (!flow->size)
		flow->size = 1000;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "output", required_argument, NULL, 'o' },
		{ "every", required_argument, NULL, 'e' },
		{ "begin", required_argument, NULL, 'b' },
		{ "seed", required_argument, NULL, 's' },
		{},
	};
	struct rows rows = {};
	const char *output = NULL;
	double every = 0.1, at = 0;
	uint64_t seed = 1;
	unsigned int n;
	int which;

	opterr = 0;
	while ((which = getopt_long(argc, argv, "+:", names, NULL)) != -1) {
		switch (which) {
		case 'h':
			fputs(usage, stdout);
			return fclose(stdout) ? 1 : 0;
		case 'o':
			output = optarg;
			break;
		case 'e':
			every = number("--every", optarg, 1e-4, 3600);
			break;
		case 'b':
			at = number("--begin", optarg, 0, 1e12);
			break;
		case 's':
			seed = seed_number(optarg);
			break;
		case ':':
			refuse("%s needs a value", argv[optind - 1]);
		default:
			refuse("unknown option %s; see --help",
			       argv[optind - 1]);
		}
	}
	if (optind == argc)
		refuse("no flows; see --help");
	while (optind < argc)
		take_flow(argv[optind++], seed);

	prepare();
	begin = at ? nanoseconds(at) : now();
	for (n = 0; n < count; n++)
		if (pthread_create(&flows[n].thread, NULL, run_flow, &flows[n]))
			broken("flow %u: no thread for it", n + 1);
	/* Signals interrupt us, who have nothing to lose. */
	pthread_sigmask(SIG_SETMASK, &while_waiting, NULL);
	watch_flows(&rows, every);
	for (n = 0; n < count; n++)
		close_flow(&flows[n]);
	write_all(output, &rows, every);
	free(rows.row);
	return 0;
}
