/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The devices of this router's SLBN links.
 */
#ifndef SLBND_LINKS_H
#define SLBND_LINKS_H

#include <fairpath/core.h>

u32 links_device(u16 number);

#endif /* SLBND_LINKS_H */
