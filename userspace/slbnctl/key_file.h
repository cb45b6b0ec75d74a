/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands about files with keys.
 */
#ifndef FAIRPATH_SLBNCTL_KEY_FILE_H
#define FAIRPATH_SLBNCTL_KEY_FILE_H

#include "slbnctl.h"

bool key_read_id(const char *text, __u8 *id);
enum status run_key_generate(int argc, char **argv);
enum status run_key_fingerprint(int argc, char **argv);

#endif /* FAIRPATH_SLBNCTL_KEY_FILE_H */
