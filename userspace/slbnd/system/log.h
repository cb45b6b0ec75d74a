/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log messages on standard error, each of one line.
 *
 * If standard error is the journal, each begins with its level as sd-daemon(3)
 * defines it ("<4>"), otherwise with "slbnd: ". Levels are those of syslog(3):
 * LOG_ERR, LOG_WARNING, LOG_INFO and LOG_DEBUG.
 */
#ifndef SLBND_LOG_H
#define SLBND_LOG_H

#include <stdbool.h>
#include <syslog.h>

#define log_error(...) log_message(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_message(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_DEBUG, __VA_ARGS__)

bool log_level(const char *name, int *level);
void log_set_level(int level);
void log_message(int level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif /* SLBND_LOG_H */
