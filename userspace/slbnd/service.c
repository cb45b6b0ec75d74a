// SPDX-License-Identifier: GPL-2.0
/*
 * Notifications to a service manager. See service.h.
 */
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

/**
 * service_notify() - send a notification
 * @state: assignments, such as "READY=1", separated by newlines
 */
void service_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length;
	int fd;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	length = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (*path == '@')
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, state, strlen(state), MSG_NOSIGNAL, (void *)&address,
	       length);
	close(fd);
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

/**
 * service_start_watchdog() - read the watchdog's timeout from the environment
 */
void service_start_watchdog(void)
{
	const char *timeout = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	if (!timeout || (pid && strtoull(pid, NULL, 10) != (u64)getpid()))
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
