/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Notifies a service manager of our state (sd_notify(3)), and that we run
 * (sd_watchdog_enabled(3)), without libsystemd.
 */
#ifndef SLBND_SERVICE_H
#define SLBND_SERVICE_H

#include <fairpath/core.h>

void service_notify(const char *state);
void service_notify_reloading(void);
void service_start_watchdog(void);
u64 service_watchdog_due(void);
void service_run_watchdog(u64 now);

#endif /* SLBND_SERVICE_H */
