// SPDX-License-Identifier: GPL-2.0
/*
 * fairflow's samples of its flows, and its output
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>

#include "fairflow.h"

/*
 * A sample of a flow. The file's first line describes these fields and their
 * types, in this order, without padding.
 */
struct sample {
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
	uint32_t retransmits; /* of these, retransmissions */
	uint32_t duplicates; /* of these, reported as duplicate (D-SACK) */
	uint32_t rto; /* us */
	uint32_t timeouts; /* since the last new ACK */
};

static const char sample_fields[] =
	"[[\"time\", \"<u8\"], [\"acked\", \"<u8\"], [\"delivery\", \"<u8\"],"
	" [\"flow\", \"<u4\"], [\"cwnd\", \"<u4\"], [\"ssthresh\", \"<u4\"],"
	" [\"unacked\", \"<u4\"], [\"rtt\", \"<u4\"], [\"rtt_min\", \"<u4\"],"
	" [\"state\", \"<u4\"], [\"segments\", \"<u4\"],"
	" [\"retransmits\", \"<u4\"], [\"duplicates\", \"<u4\"],"
	" [\"rto\", \"<u4\"], [\"timeouts\", \"<u4\"]]";

static void sample_flow(struct samples *samples, struct flow *flow,
			uint64_t time)
{
	struct tcp_info info;

	pthread_mutex_lock(&flow->lock);
	if (flow->state == OPEN && !flow->udp) {
		read_tcp_info(flow, &info);
		samples->sample = grow(samples->sample, samples->count,
				       sizeof(*samples->sample));
		samples->sample[samples->count++] = (struct sample){
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

	for (n = 0; n < flow_count; n++) {
		pthread_mutex_lock(&flows[n].lock);
		ended &= flows[n].state == ENDED;
		pthread_mutex_unlock(&flows[n].lock);
	}
	return ended;
}

void sample_flows(struct samples *samples, double every)
{
	uint64_t step = nanoseconds(every), due;
	unsigned int n;

	for (due = step; !stopped && !all_ended(); due += step) {
		sleep_until(due);
		for (n = 0; n < flow_count; n++)
			sample_flow(samples, &flows[n], elapsed());
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
		flow->udp ? "udp" : flow->ran, flow->began * 1e-9,
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

void write_result(FILE *file, const struct samples *samples, double every)
{
	unsigned int n;

	fprintf(file,
		"{\"fairflow\": 1, \"begin\": %.9f, \"every\": %g, \"flows\": [",
		begin * 1e-9, every);
	for (n = 0; n < flow_count; n++) {
		fputs(n ? ", " : "", file);
		write_flow(file, &flows[n]);
	}
	fprintf(file, "], \"rows\": %zu, \"fields\": %s}\n", samples->count,
		sample_fields);
	fwrite(samples->sample, sizeof(*samples->sample), samples->count, file);
}
