/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Notifies a service manager of our state (sd_notify(3)), and that we are
 * running (sd_watchdog_enabled(3)), and has it keep sockets for the next slbnd
 * (FileDescriptorStoreMax in systemd.service(5), sd_listen_fds(3)), without
 * libsystemd.
 */
#ifndef SLBND_SERVICE_H
#define SLBND_SERVICE_H

#include <fairpath/core.h>

/* Descriptor of the first socket that it has kept. */
#define SERVICE_SOCKET 3

void service_notify(const char *state);
void service_notify_reloading(void);
void service_start_watchdog(void);
int service_count_sockets(void);
void service_keep_socket(int socket);
u64 service_watchdog_due(void);
void service_run_watchdog(u64 now);

#endif /* SLBND_SERVICE_H */
