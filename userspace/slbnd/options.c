// SPDX-License-Identifier: GPL-2.0
/*
 * What the user chooses: options.h says how.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../units.h"
#include "options.h"

#define LINE_LENGTH 512

/* Where a word stands, for complaints. */
struct place {
	const char *file; /* NULL: the command line */
	unsigned int line;
};

static bool complain(const struct place *place, const char *word,
		     const char *what)
{
	if (place->file)
		fprintf(stderr, "slbnd: %s:%u: %s: %s\n", place->file,
			place->line, word, what);
	else
		fprintf(stderr, "slbnd: --%s: %s\n", word, what);
	return false;
}

static bool read_epoch(struct options *options, const char *text)
{
	return units_time(text, &options->agent.epoch) &&
	       options->agent.epoch >= 10000000 &&
	       options->agent.epoch <= 3600000000000ULL;
}

static bool read_pause(struct options *options, const char *text)
{
	return units_time(text, &options->agent.pause) &&
	       options->agent.pause >= 1000 &&
	       options->agent.pause <= 1000000000;
}

static bool read_control(struct options *options, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	if (!isdigit((unsigned char)*text) ||
	    end != text + strspn(text, "0123456789.") ||
	    (*end && strcmp(end, "%")) || percent < 0.1 || percent > 100)
		return false;
	options->agent.control = percent * 10 + 0.5;
	return true;
}

static bool read_hops(struct options *options, const char *text)
{
	__u64 hops;

	if (!units_count(text, "", &hops) || hops < 2 || hops > SLBN_HOPS_MAX ||
	    hops % 2)
		return false;
	options->agent.hops = hops;
	return true;
}

static bool read_socket(struct options *options, const char *text)
{
	if (*text != '/' || strlen(text) >= sizeof(options->socket))
		return false;
	strcpy(options->socket, text);
	return true;
}

static bool read_group(struct options *options, const char *text)
{
	const struct group *group = getgrnam(text);

	if (!group)
		return false;
	options->group = group->gr_gid;
	return true;
}

/* A key is a secret: in a file of its own, never on the command line. */
static bool read_key(struct options *options, const char *path)
{
	char text[2 * SIPHASH_KEY_LENGTH + 2] = "";
	FILE *file;
	size_t n;

	options->keyed = false;
	if (!strcmp(path, "none"))
		return true;
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text), file);
	fclose(file);
	if (n == sizeof(text) - 1 && text[n - 1] == '\n')
		n--;
	if (n != 2 * SIPHASH_KEY_LENGTH ||
	    strspn(text, "0123456789abcdefABCDEF") < n)
		return false;
	for (n = 0; n < SIPHASH_KEY_LENGTH; n++) {
		char octet[] = { text[2 * n], text[2 * n + 1], 0 };

		options->key[n] = strtoul(octet, NULL, 16);
	}
	options->keyed = true;
	return true;
}

static const struct {
	const char *word;
	bool (*read)(struct options *options, const char *text);
	const char *takes;
	const char *help;
} words[] = {
	{ "epoch", read_epoch, "must be 10ms to 3600s",
	  "TIME      epoch of the domain's links (1s)" },
	{ "pause", read_pause, "must be 1us to 1s",
	  "TIME      between a session's cycles, at least (5ms)" },
	{ "control", read_control, "must be 0.1% to 100%",
	  "PERCENT of a session's rate for its control packets (1%)" },
	{ "hops", read_hops, "must be an even number from 2 to 64",
	  "NUMBER     links on the longest path (32)" },
	{ "socket", read_socket,
	  "must be an absolute path of at most 107 bytes",
	  "PATH     where clients connect (" SLBN_SOCKET ")" },
	{ "group", read_group, "there is no such group",
	  "NAME      who may, besides root (root)" },
	{ "key-file", read_key,
	  "must be a file with 32 hexadecimal digits, or none",
	  "PATH   the domain's key (none)" },
};

static bool read_word(struct options *options, const struct place *place,
		      const char *word, const char *value)
{
	size_t n;

	for (n = 0; n < sizeof(words) / sizeof(*words); n++) {
		if (strcmp(word, words[n].word))
			continue;
		if (!value)
			return complain(place, word, "needs a value");
		return words[n].read(options, value) ||
		       complain(place, word, words[n].takes);
	}
	return complain(place, word, "there is no such word; see --help");
}

static bool read_line(struct options *options, const struct place *place,
		      char *line)
{
	static const char blank[] = " \t\r\n";
	char *word = line + strspn(line, blank);
	char *value, *end;

	if (!*word || *word == '#')
		return true;
	end = word + strcspn(word, " \t\r\n=");
	value = end + strspn(end, blank);
	if (*value != '=') {
		*end = 0;
		return complain(place, word, "must be \"word = value\"");
	}
	*end = 0;
	value++;
	value += strspn(value, blank);
	end = value + strlen(value);
	while (end > value && strchr(blank, end[-1]))
		*--end = 0;
	return read_word(options, place, word, *value ? value : NULL);
}

static bool read_file(struct options *options, const char *path, bool needed)
{
	struct place place = { .file = path };
	char line[LINE_LENGTH];
	bool fine = true;
	FILE *file = fopen(path, "re");

	if (!file) {
		if (!needed && errno == ENOENT)
			return true;
		fprintf(stderr, "slbnd: %s: %s\n", path, strerror(errno));
		return false;
	}
	while (fine && fgets(line, sizeof(line), file)) {
		place.line++;
		if (strlen(line) == sizeof(line) - 1)
			fine = complain(&place, "...", "the line is too long");
		else
			fine = read_line(options, &place, line);
	}
	if (fine && ferror(file)) {
		fprintf(stderr, "slbnd: %s: cannot be read\n", path);
		fine = false;
	}
	fclose(file);
	return fine;
}

/* The file comes first, wherever it is named. */
static const char *named_file(int argc, char **argv)
{
	int n;

	for (n = 1; n < argc - 1; n++)
		if (!strcmp(argv[n], "--config"))
			return argv[n + 1];
	return NULL;
}

/**
 * options_read() - read all that the user chooses
 * @options: all of it is set
 * @argc: the command line
 * @argv: the same
 *
 * Return: what is wanted; OPTIONS_WRONG after a complaint.
 */
enum options_want options_read(struct options *options, int argc, char **argv)
{
	const struct place here = {};
	const char *file = named_file(argc, argv);
	int n;

	*options = (struct options){
		.agent = {
			.epoch = 1000000000,
			.pause = 5000000,
			.control = 10,
			.hops = SLBN_HOPS_DEFAULT,
		},
		.socket = SLBN_SOCKET,
	};
	for (n = 1; n < argc; n++) {
		if (!strcmp(argv[n], "--help") || !strcmp(argv[n], "-h"))
			return OPTIONS_HELP;
		if (!strcmp(argv[n], "--version") || !strcmp(argv[n], "-V"))
			return OPTIONS_VERSION;
	}
	if (!read_file(options, file ?: OPTIONS_FILE, file))
		return OPTIONS_WRONG;
	for (n = 1; n < argc; n += 2) {
		const char *value = n + 1 < argc ? argv[n + 1] : NULL;

		if (strncmp(argv[n], "--", 2)) {
			fprintf(stderr, "slbnd: what is \"%s\"? See --help\n",
				argv[n]);
			return OPTIONS_WRONG;
		}
		if (!strcmp(argv[n], "--config")) {
			if (value)
				continue;
			complain(&here, "config", "needs a value");
			return OPTIONS_WRONG;
		}
		if (!read_word(options, &here, argv[n] + 2, value))
			return OPTIONS_WRONG;
	}
	return OPTIONS_RUN;
}

/**
 * options_help() - say what there is
 */
void options_help(void)
{
	size_t n;

	puts("Usage: slbnd [OPTION VALUE]...\n"
	     "\n"
	     "Speaks SLBN for the sessions of this access router: asks the links on each\n"
	     "one's path for its rate, again and again, and tells who has asked for it.\n");
	for (n = 0; n < sizeof(words) / sizeof(*words); n++)
		printf("  --%s %s\n", words[n].word, words[n].help);
	puts("  --config PATH     read these from a file first, \"word = value\" in each line\n"
	     "                    (" OPTIONS_FILE ", if there is one)\n"
	     "  --help, --version\n"
	     "\n"
	     "SIGHUP reads the file again; SIGTERM ends all sessions, then slbnd.");
}
