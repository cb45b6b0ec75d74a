/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the traffic generators: errors, time, number parsing, the file of
 * the result, and process settings for exact timing.
 */
#ifndef COMMON_H
#define COMMON_H

#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NSEC_PER_SEC 1000000000ULL

/* The sink's reply when it has received a whole flow; in network byte order. */
struct answer {
	uint64_t bytes;
	uint64_t segments;
};

/* The program's name, for messages. */
extern const char program[];

/* SIGTERM or SIGINT was received. */
extern volatile sig_atomic_t stopped;

/* The signal mask for waiting: signals are blocked otherwise, to miss none. */
extern sigset_t while_waiting;

void end(int status, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* Print an error and exit: for invalid arguments, and for failures. */
#define refuse(...) end(2, __VA_ARGS__)
#define broken(...) end(1, __VA_ARGS__)

/* CLOCK_MONOTONIC [ns]. */
uint64_t now(void);

/* Make room for one more element in an array of @count, which is doubled. */
void *grow(void *array, size_t count, size_t size);

/* Set up signals and limits; call it first. */
void prepare(void);

/*
 * Parse the value of @name, from @low to @high: only digits and one decimal
 * point, no sign, no exponent.
 */
double number(const char *name, const char *text, double low, double high);
double whole_number(const char *name, const char *text, double low,
		    double high);
uint64_t seed_number(const char *text);
struct in_addr address_named(const char *name, const char *text);

/*
 * Open the file for the result; NULL: standard output. An earlier file keeps
 * its contents until begin_output(), when there is a result.
 */
FILE *open_output(const char *path);
void begin_output(const char *path, FILE *file);
void close_output(const char *path, FILE *file);

#endif /* COMMON_H */
