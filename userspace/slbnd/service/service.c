// SPDX-License-Identifier: GPL-2.0
/*
 * Notifications to a service manager, and sockets from it. See service.h.
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "service.h"

/* Time between two WATCHDOG=1, ns; 0: no watchdog. */
static u64 interval;
/* When the next one is due, ns. */
static u64 due;

/* Send a notification, with a descriptor if that is not negative. */
static void notify(const char *state, int descriptor)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct iovec data = { (void *)state, strlen(state) };
	union {
		struct cmsghdr head;
		char octets[CMSG_SPACE(sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct msghdr message = {
		.msg_name = &address,
		.msg_iov = &data,
		.msg_iovlen = 1,
	};
	int fd;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	message.msg_namelen =
		offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (descriptor >= 0) {
		memcpy(CMSG_DATA(&control.head), &descriptor, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	if (*path == '@')
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendmsg(fd, &message, MSG_NOSIGNAL);
	close(fd);
}

/**
 * service_notify() - send a notification
 * @state: assignments, such as "READY=1", separated by newlines
 */
void service_notify(const char *state)
{
	notify(state, -1);
}

/**
 * service_keep_socket() - have a socket kept, and passed to the next slbnd
 * @socket: the socket
 */
void service_keep_socket(int socket)
{
	notify("FDSTORE=1\nFDNAME=slbn\nFDPOLL=0", socket);
}

/**
 * service_notify_reloading() - notify that a reload begins, which READY=1 ends
 *
 * Type=notify-reload needs the time, to tell READY=1 from an earlier one.
 */
void service_notify_reloading(void)
{
	struct timespec now;
	char state[64];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 now.tv_sec * 1000000ULL + now.tv_nsec / 1000);
	service_notify(state);
}

/* Does an environment variable that is meant for a process name us, or no process? */
static bool is_ours(const char *pid)
{
	return !pid || strtoull(pid, NULL, 10) == (u64)getpid();
}

/**
 * service_count_sockets() - how many sockets does the service manager pass to us?
 *
 * Return: their number; the first one is SERVICE_SOCKET.
 */
int service_count_sockets(void)
{
	const char *count = getenv("LISTEN_FDS");
	const char *pid = getenv("LISTEN_PID");
	unsigned long number;

	if (!count || !pid || !is_ours(pid))
		return 0;
	number = strtoul(count, NULL, 10);
	return number < INT_MAX - SERVICE_SOCKET ? (int)number : 0;
}

/**
 * service_start_watchdog() - read the watchdog's timeout from the environment
 */
void service_start_watchdog(void)
{
	const char *timeout = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	if (!timeout || !is_ours(pid))
		return;
	/* Half of the timeout, as sd_watchdog_enabled(3) recommends. */
	interval = strtoull(timeout, NULL, 10) * 1000 / 2;
}

/**
 * service_watchdog_due() - when to call service_run_watchdog() at the latest
 *
 * Return: the time, ns; ~0: never.
 */
u64 service_watchdog_due(void)
{
	return interval ? due : ~0ULL;
}

/**
 * service_run_watchdog() - report that the main loop works
 * @now: ns
 */
void service_run_watchdog(u64 now)
{
	if (!interval || now < due)
		return;
	service_notify("WATCHDOG=1");
	due = now + interval;
}
