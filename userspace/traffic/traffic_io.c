// SPDX-License-Identifier: GPL-2.0
/*
 * fairtraffic's event loop, sockets and output
 */
#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fairtraffic.h"

/* Of the JSON document. */
#define FORMAT "1"

const char *const kinds[] = { "flows", "packets" };
char payload[256 << 10];

int new_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0)
		broken("epoll: %m");
	return set;
}

int wait_for(int set, struct epoll_event *events, uint64_t time)
{
	struct timespec timeout = {
		.tv_sec = time / NSEC_PER_SEC,
		.tv_nsec = time % NSEC_PER_SEC,
	};
	int count =
		epoll_pwait2(set, events, MAX_EVENTS, &timeout, &while_waiting);

	if (count < 0 && errno != EINTR)
		broken("epoll: %m");
	return count < 0 ? 0 : count;
}

void watch(int set, int fd, void *what)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = what,
	};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		broken("epoll: %m");
}

int new_socket(int type)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		broken("socket: %m");
	return fd;
}

bool try_again(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

struct sockaddr_in address_of(const struct options *o)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr = o->address,
		.sin_port = htons(o->port),
	};
}

struct bin *bin_of(struct bins *bins, uint64_t sent)
{
	uint64_t index = sent / BIN_NSEC - bins->first;

	while (bins->count <= index) {
		bins->bin = grow(bins->bin, bins->count, sizeof(*bins->bin));
		memset(&bins->bin[bins->count++], 0, sizeof(*bins->bin));
	}
	return &bins->bin[index];
}

void write_head(FILE *file, const struct options *o, const char *role,
		uint64_t began)
{
	begin_output(o->output, file);
	fprintf(file,
		"{\"fairtraffic\": \"" FORMAT "\", \"role\": \"%s\","
		" \"kind\": \"%s\",\n \"began\": %.9f, \"ended\": %.9f",
		role, kinds[o->kind], began * 1e-9, now() * 1e-9);
}

void write_bins(FILE *file, const struct bins *bins, bool delays)
{
	size_t n;

	fprintf(file, ",\n \"bin\": %g, \"first_bin\": %llu,\n \"bins\": [",
		BIN_NSEC * 1e-9, (unsigned long long)bins->first);
	for (n = 0; n < bins->count; n++) {
		const struct bin *bin = &bins->bin[n];

		fprintf(file, "%s[%llu", n ? ", " : "",
			(unsigned long long)bin->packets);
		if (delays)
			fprintf(file, ", %llu, %llu",
				(unsigned long long)bin->delay / 1000,
				(unsigned long long)bin->longest / 1000);
		fputc(']', file);
	}
	fputc(']', file);
}
