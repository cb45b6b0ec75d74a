/* SPDX-License-Identifier: GPL-2.0 */
/*
 * This router's SLBN links: their devices and rates.
 */
#ifndef SLBND_LINKS_H
#define SLBND_LINKS_H

#include <stdbool.h>

#include <fairpath/core.h>

struct mnl_socket;

struct mnl_socket *links_monitor(void);
void links_subscribe(struct mnl_socket *monitor);
bool links_changed(struct mnl_socket *monitor);
u32 links_device(u16 number);
u64 links_rate(u32 device, const char *name);

#endif /* SLBND_LINKS_H */
