// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl key generate and key fingerprint: files with keys.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../common/link_options.h"
#include "../common/siphash.h"
#include "../common/units.h"
#include "key_file.h"
#include "show.h"

/* Not the beginning of a control packet: a fingerprint authenticates none. */
static const char fingerprint_text[] = "fingerprint of a fairpath key";

/**
 * key_read_id() - parse the number of a key
 * @text: the number
 * @id: set to it
 *
 * Return: whether it is one; if not, the error has been printed.
 */
bool key_read_id(const char *text, __u8 *id)
{
	__u64 value;

	if (!units_count(text, "", &value) || value > 255) {
		complain("key \"%s\": the number must be 0 to 255", text);
		return false;
	}
	*id = value;
	return true;
}

/* Write a key into a new file that only its owner may read. */
static bool write_file(const char *name, const char *text)
{
	size_t length = strlen(text);
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool done;

	if (fd < 0) {
		complain("%s: %s", name, strerror(errno));
		return false;
	}
	done = write(fd, text, length) == (ssize_t)length && !fsync(fd);
	done &= !close(fd);
	if (done)
		return true;
	complain("%s: %s", name, strerror(errno));
	unlink(name);
	return false;
}

/**
 * run_key_generate() - run "slbnctl key generate"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_key_generate(int argc, char **argv)
{
	__u8 key[SLBN_KEY_LENGTH];
	char text[sizeof("255 ") + 2 * sizeof(key) + 2] = "";
	bool done = true;
	size_t n, at = 0;
	__u8 id;

	if (argc > 2) {
		complain("generate takes a file and a number; see --help");
		return STATUS_USAGE;
	}
	if (argc > 1) {
		if (!key_read_id(argv[1], &id))
			return STATUS_USAGE;
		at = snprintf(text, sizeof(text), "%u ", id);
	}
	if (getrandom(key, sizeof(key), 0) != sizeof(key)) {
		complain("random numbers: %s", strerror(errno));
		return STATUS_FAILED;
	}
	for (n = 0; n < sizeof(key); n++)
		snprintf(text + at + 2 * n, 3, "%02x", key[n]);
	strcpy(text + at + 2 * n, "\n");
	if (argc) {
		done = write_file(*argv, text);
	} else {
		text[2 * n] = 0;
		show_begin();
		show_string("key", "%s", text);
		show_end();
		putchar('\n');
	}
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return done ? STATUS_OK : STATUS_FAILED;
}

/**
 * run_key_fingerprint() - run "slbnctl key fingerprint"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_key_fingerprint(int argc, char **argv)
{
	__u8 key[SLBN_KEY_LENGTH];
	char text[32];
	__u8 id;
	u64 hash;

	if (argc != 1) {
		complain("fingerprint takes one file; see --help");
		return STATUS_USAGE;
	}
	if (!link_key_read("slbnctl", *argv + (**argv == '@'), &id, key))
		return STATUS_FAILED;
	hash = siphash24(fingerprint_text, sizeof(fingerprint_text) - 1, key);
	snprintf(text, sizeof(text), "%016llx", hash);
	explicit_bzero(key, sizeof(key));
	show_begin();
	show_string("fingerprint", "%s", text);
	show_end();
	putchar('\n');
	return STATUS_OK;
}
