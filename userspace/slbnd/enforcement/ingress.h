/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ingress: the devices by which packets of local hosts arrive, by the routes to these
 * hosts. What arrives by them is limited whatever its source address.
 *
 * A device leads to local hosts if a route within a prefix of them uses it, or,
 * for a prefix without one, the most specific route that contains it. A device
 * of a default route leads to all others, too, and does not count: packets of
 * remote hosts arrive by it. Routes of all tables count. Packets of a VRF
 * arrive by the VRF device, which is not found.
 */
#ifndef SLBND_INGRESS_H
#define SLBND_INGRESS_H

#include "../system/prefix.h"

/* Maximum number of devices. */
#define INGRESS_DEVICES 4096

/* Is a device among these? */
static inline bool ingress_contains(const u32 *devices, u32 count, u32 device)
{
	while (count--)
		if (devices[count] == device)
			return true;
	return false;
}

int ingress_find(const struct flows_prefix *hosts, u32 host_count, u32 *devices,
		 u32 *count);

#endif /* SLBND_INGRESS_H */
