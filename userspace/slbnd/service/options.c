// SPDX-License-Identifier: GPL-2.0
/*
 * Options of slbnd. See options.h.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fairpath/drr_fq.h>

#include "../../common/link_options.h"
#include "../../common/units.h"
#include "../enforcement/connections.h"
#include "../system/log.h"
#include "api.h"
#include "options.h"

/* Longest line, with space for the maximum number of prefixes. */
#define LINE_LENGTH 4096
/* The same for the key file. */
#define KEY_LINE_LENGTH 256

/* Where an option was given, for error messages. */
struct origin {
	enum options_source source;
	const char *file; /* NULL: the command line */
	unsigned int line;
};

static bool report(const struct origin *origin, const char *name,
		   const char *problem)
{
	if (origin->file)
		log_error("%s:%u: %s: %s", origin->file, origin->line, name,
			  problem);
	else
		log_error("--%s: %s", name, problem);
	return false;
}

static bool read_epoch(struct options *options, const char *text)
{
	return units_time(text, &options->agent.epoch) &&
	       options->agent.epoch >= 10000000 &&
	       options->agent.epoch <= 3600000000000ULL;
}

static bool read_lease_margin(struct options *options, const char *text)
{
	__u64 permille;

	if (!units_permille(text, 0, SLBN_LEASE_MARGIN_MAX / 10, &permille))
		return false;
	options->agent.margin = permille;
	return true;
}

static bool read_pause(struct options *options, const char *text)
{
	return units_time(text, &options->agent.pause) &&
	       options->agent.pause >= 1000 &&
	       options->agent.pause <= 1000000000;
}

static bool read_control(struct options *options, const char *text)
{
	__u64 permille;

	if (!units_permille(text, 0.1, 100, &permille))
		return false;
	options->agent.control = permille;
	return true;
}

static bool read_hops(struct options *options, const char *text)
{
	__u64 hops;

	if (!units_count(text, "", &hops) || !hops || hops > SLBN_HOPS_MAX)
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

/* An absolute path, or "none" for none. */
static bool read_path(const char *text, char *path, size_t size)
{
	if (!strcmp(text, "none"))
		text = "";
	else if (*text != '/' || strlen(text) >= size)
		return false;
	strcpy(path, text);
	return true;
}

static bool read_pins(struct options *options, const char *text)
{
	return read_path(text, options->pins, sizeof(options->pins));
}

static bool read_state(struct options *options, const char *text)
{
	return read_path(text, options->state, sizeof(options->state));
}

static bool read_group(struct options *options, const char *text)
{
	const struct group *group = getgrnam(text);

	if (!group)
		return false;
	options->group = group->gr_gid;
	return true;
}

/* Parse a line of the key file: "[NUMBER] KEY", or nothing. */
static bool read_key_line(struct slbn_keys *keys, char *line)
{
	struct slbn_key key = {};
	bool valid;

	if (!line[strspn(line, " \t\r\n\v\f")])
		return true;
	valid = link_key_parse(line, &key.id, (u8 *)key.secret) &&
		slbn_key_add(keys, &key);
	explicit_bzero(&key, sizeof(key));
	return valid;
}

/* Keys are secrets: read them from a file, not from the command line. */
static bool read_keys(struct options *options, const char *path)
{
	char line[KEY_LINE_LENGTH], buffer[BUFSIZ];
	bool valid = true;
	struct stat status;
	FILE *file;

	options->keys = (struct slbn_keys){};
	options->keys_readable = false;
	if (!strcmp(path, "none"))
		return true;
	file = fopen(path, "re");
	if (!file) {
		options->problem = strerror(errno);
		return false;
	}
	/* The C library would free its own buffer with the keys in it. */
	setvbuf(file, buffer, _IOFBF, sizeof(buffer));
	options->keys_readable =
		!fstat(fileno(file), &status) && status.st_mode & 077;
	while (valid && fgets(line, sizeof(line), file))
		valid = strlen(line) < sizeof(line) - 1 &&
			read_key_line(&options->keys, line);
	valid = valid && !ferror(file) && options->keys.count;
	fclose(file);
	explicit_bzero(line, sizeof(line));
	explicit_bzero(buffer, sizeof(buffer));
	return valid;
}

/* Parse a list, "PART,PART". */
static bool read_list(struct options *options, const char *text,
		      bool (*read)(struct options *options, char *part))
{
	char copy[LINE_LENGTH];
	char *rest = copy, *part;
	bool valid = true;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	while (valid && (part = strsep(&rest, ",")))
		valid = read(options, part);
	return valid;
}

static bool zeros_after(const u8 *address, u32 bits, u32 all)
{
	for (; bits < all; bits++)
		if (address[bits / 8] & 0x80 >> bits % 8)
			return false;
	return true;
}

static bool parse_prefix(struct options *options, char *part,
			 struct flows_prefix *prefix)
{
	char *slash = strchr(part, '/');
	__u64 length, all = 32;

	*prefix = (struct flows_prefix){ .family = AF_INET };
	if (slash)
		*slash++ = 0;
	if (inet_pton(AF_INET, part, prefix->address) != 1) {
		prefix->family = AF_INET6;
		all = 128;
		if (inet_pton(AF_INET6, part, prefix->address) != 1)
			return false;
	}
	length = all;
	if (slash && (!units_count(slash, "", &length) || length > all))
		return false;
	prefix->length = length;
	/* Bits set after the prefix length are most likely a mistake. */
	if (!zeros_after(prefix->address, length, all)) {
		options->problem =
			"must be prefixes, such as 192.0.2.0/24, not 192.0.2.1/24";
		return false;
	}
	return true;
}

static bool read_prefix(struct options *options, char *part)
{
	struct flows_config *flows = &options->flows;

	return flows->host_count < FLOWS_PREFIXES &&
	       parse_prefix(options, part, &flows->hosts[flows->host_count++]);
}

static bool read_hosts(struct options *options, const char *text)
{
	if (!options->append)
		options->flows.host_count = 0;
	return read_list(options, text, read_prefix);
}

static bool read_range(struct options *options, char *part)
{
	struct flows_config *flows = &options->flows;
	char *dash = strchr(part, '-');
	__u64 first, last;

	if (dash)
		*dash++ = 0;
	if (!units_count(part, "", &first) ||
	    !units_count(dash ?: part, "", &last) || !first || first > last ||
	    last > 65535 || flows->port_count == FLOWS_PORTS)
		return false;
	flows->ports[flows->port_count++] =
		(struct flows_ports){ .first = first, .last = last };
	return true;
}

static bool read_ports(struct options *options, const char *text)
{
	if (!options->append)
		options->flows.port_count = 0;
	return read_list(options, text, read_range);
}

static bool read_protocol(struct options *options, char *part)
{
	const struct protoent *entry;
	__u64 number;

	if (!units_count(part, "", &number)) {
		entry = getprotobyname(part);
		number = entry ? entry->p_proto : 0;
	}
	if (!number || number > 255)
		return false;
	options->flows.protocols[number] = true;
	return true;
}

static bool read_only(struct options *options, const char *text)
{
	if (!options->append)
		memset(options->flows.protocols, 0,
		       sizeof(options->flows.protocols));
	options->flows.only_protocols = true;
	return read_list(options, text, read_protocol);
}

static bool read_sessions(struct options *options, const char *text)
{
	struct flows_config *flows = &options->flows;
	static const char prefix[] = "prefix/";
	__u64 length;

	flows->sessions = FLOWS_PER_SHARE;
	flows->share_length[0] = 32;
	flows->share_length[1] = 64;
	if (!strcmp(text, "flow"))
		flows->sessions = FLOWS_PER_FLOW;
	else if (!strcmp(text, "pair"))
		flows->sessions = FLOWS_PER_PAIR;
	if (flows->sessions != FLOWS_PER_SHARE || !strcmp(text, "host"))
		return true;
	if (strncmp(text, prefix, strlen(prefix)) ||
	    !units_count(text + strlen(prefix), "", &length) || !length ||
	    length > 64)
		return false;
	flows->share_length[0] = fp_min64(length, 32);
	flows->share_length[1] = length;
	return true;
}

/* Parse "PREFIX NUMBER", "port PORT NUMBER" or "mark MARK NUMBER". */
static bool read_weight(struct options *options, char *part)
{
	struct flows_config *flows = &options->flows;
	struct flows_weight weight = {};
	static const char blank[] = " \t";
	char *rest = part;
	char *word = strtok_r(part, blank, &rest);
	bool port = word && !strcmp(word, "port");
	bool mark = word && !strcmp(word, "mark");
	__u64 value = 0, number;

	if (port || mark) {
		word = strtok_r(NULL, blank, &rest);
		if (!word || !units_count(word, "", &value) || !value ||
		    value > (port ? 65535 : 0xffffffff))
			return false;
		if (port)
			weight.port = value;
		else
			weight.mark = value;
	} else if (!word || !parse_prefix(options, word, &weight.prefix)) {
		return false;
	}
	word = strtok_r(NULL, blank, &rest);
	if (!word || !units_count(word, "", &number) || !number ||
	    number > 900 || strtok_r(NULL, blank, &rest) ||
	    flows->weight_count == FLOWS_WEIGHTS)
		return false;
	weight.weight = number;
	flows->weights[flows->weight_count++] = weight;
	return true;
}

static bool read_weights(struct options *options, const char *text)
{
	if (!options->append)
		options->flows.weight_count = 0;
	return read_list(options, text, read_weight);
}

static bool read_idle(struct options *options, const char *text)
{
	return units_time(text, &options->flows.idle) &&
	       options->flows.idle >= 1000000000 &&
	       options->flows.idle <= 3600000000000ULL;
}

static bool read_initial(struct options *options, const char *text)
{
	return units_rate(text, &options->flows.initial) &&
	       options->flows.initial &&
	       options->flows.initial <= SLBN_RATE_MAX;
}

static bool read_number(const char *text, u64 most, u64 *number)
{
	__u64 value;

	if (!units_count(text, "", &value) || value > most)
		return false;
	*number = value;
	return true;
}

static bool read_join_packets(struct options *options, const char *text)
{
	u64 number;

	if (!read_number(text, 1000000, &number))
		return false;
	options->flows.join_packets = number;
	return true;
}

static bool read_join_bytes(struct options *options, const char *text)
{
	__u64 size;

	if (!units_size(text, &size) || size > 1ULL << 40)
		return false;
	options->flows.join_bytes = size;
	return true;
}

static bool read_sessions_max(const char *text, u32 *most)
{
	u64 number;

	if (!read_number(text, 1000000, &number) || !number)
		return false;
	*most = number;
	return true;
}

static bool read_host_sessions(struct options *options, const char *text)
{
	return read_sessions_max(text, &options->flows.admit.host_sessions);
}

static bool read_prefix_sessions(struct options *options, const char *text)
{
	return read_sessions_max(text, &options->flows.admit.prefix_sessions);
}

static bool read_host_connections(struct options *options, const char *text)
{
	u64 number;

	if (!read_number(text, FLOWS_CONNECTIONS, &number) || !number)
		return false;
	options->flows.admit.host_connections = number;
	return true;
}

/* The table has a power of two. */
static bool read_connections(struct options *options, const char *text)
{
	u64 number;

	if (!read_number(text, CONNECTIONS_MAX, &number) ||
	    number < CONNECTIONS_MIN)
		return false;
	options->connections = CONNECTIONS_MIN;
	while (options->connections < number)
		options->connections *= 2;
	return true;
}

static bool read_max_sessions(struct options *options, const char *text)
{
	return read_sessions_max(text, &options->agent.max_sessions);
}

static bool read_user_sessions(struct options *options, const char *text)
{
	return read_sessions_max(text, &options->user_sessions);
}

static bool read_user_weight(struct options *options, const char *text)
{
	return read_sessions_max(text, &options->user_weight);
}

/* A rate, or a share with "%". */
static bool read_unassigned(struct options *options, const char *text)
{
	__u64 permille;

	if (strchr(text, '%')) {
		if (!units_permille(text, 0.1, 100, &permille))
			return false;
		options->unassigned = 0;
		options->unassigned_share = permille;
		return true;
	}
	return units_rate(text, &options->unassigned) && options->unassigned &&
	       options->unassigned <= SLBN_RATE_MAX;
}

static bool read_backlog(struct options *options, const char *text)
{
	return units_time(text, &options->backlog) &&
	       options->backlog >= ENFORCE_QUEUE_MIN &&
	       options->backlog <= ENFORCE_QUEUE_MAX;
}

static bool read_excess(struct options *options, const char *text)
{
	options->excess = !strcmp(text, "unassigned");
	return options->excess || !strcmp(text, "drop");
}

/* Whether a device can have this name. */
static bool is_device(const char *name)
{
	return *name && strlen(name) < IFNAMSIZ && strcmp(name, ".") &&
	       strcmp(name, "..") && !strpbrk(name, "/: \t\n\v\f\r");
}

static bool read_device(struct options *options, char *part)
{
	if (!is_device(part) || options->device_count == ENFORCE_DEVICES)
		return false;
	strcpy(options->devices[options->device_count++], part);
	return true;
}

static bool read_devices(struct options *options, const char *text)
{
	if (!options->append) {
		options->device_count = 0;
		memset(options->devices, 0, sizeof(options->devices));
	}
	return read_list(options, text, read_device);
}

static bool read_windows(struct options *options, const char *text)
{
	options->windows = !strcmp(text, "on");
	return options->windows || !strcmp(text, "off");
}

static bool read_borrow(struct options *options, const char *text)
{
	options->flows.borrow = !strcmp(text, "on");
	return options->flows.borrow || !strcmp(text, "off");
}

static bool read_except(struct options *options, char *part)
{
	return options->except_count < FLOWS_PREFIXES &&
	       parse_prefix(options, part,
			    &options->excepted[options->except_count++]);
}

static bool read_windows_except(struct options *options, const char *text)
{
	if (!options->append)
		options->except_count = 0;
	return read_list(options, text, read_except);
}

static bool read_marks(struct options *options, const char *text)
{
	options->marks.on = !strcmp(text, "on");
	return options->marks.on || !strcmp(text, "off");
}

/* A code point for local use (RFC 2474, section 6). */
static bool read_mark(const char *text, u32 *mark)
{
	u64 number;

	if (!read_number(text, DRR_FQ_BANDS_MARK_MAX, &number) ||
	    !dscp_is_local(number))
		return false;
	*mark = number;
	return true;
}

static bool read_mark_new(struct options *options, const char *text)
{
	return read_mark(text, &options->marks.new);
}

static bool read_mark_assigned(struct options *options, const char *text)
{
	return read_mark(text, &options->marks.assigned);
}

static bool read_domain_device(struct options *options, char *part)
{
	struct marks_config *marks = &options->marks;

	if (!is_device(part) || marks->count == MARKS_DEVICES)
		return false;
	strcpy(marks->domain[marks->count++], part);
	return true;
}

static bool read_domain(struct options *options, const char *text)
{
	if (!options->append)
		options->marks.count = 0;
	return read_list(options, text, read_domain_device);
}

static bool read_log_level(struct options *options, const char *text)
{
	return log_level(text, &options->log_level);
}

#define STANDARD_MARK "must be 3, 7, 11, ... or 63: others are standard"

static const struct {
	const char *name;
	bool (*read)(struct options *options, const char *text);
	const char *syntax;
	const char *help;
} known[] = {
	{ "epoch", read_epoch, "must be 10ms to 3600s",
	  "TIME      epoch of the domain's links (1s)" },
	{ "lease-margin", read_lease_margin, "must be 0% to 50%",
	  "PERCENT part of an epoch by which leases end earlier (12.5%)" },
	{ "pause", read_pause, "must be 1us to 1s",
	  "TIME      minimum pause between the cycles of a session (5ms)" },
	{ "control", read_control, "must be 0.1% to 100%",
	  "PERCENT limit of control packets, of the session's rate (1%)" },
	{ "hops", read_hops, "must be 1 to 64",
	  "NUMBER     maximum number of links on a path (32)" },
	{ "socket", read_socket,
	  "must be an absolute path of at most 107 bytes",
	  "PATH     socket for clients (" SLBN_SOCKET ")" },
	{ "group", read_group, "no such group",
	  "NAME      group that may connect, besides root (root)" },
	{ "key-file", read_keys,
	  "must be a file with one or two lines \"[0 to 255] 32 hexadecimal digits\", or none",
	  "PATH   file with the domain's keys, the newest last (none)" },
	{ "hosts", read_hosts,
	  "must be prefixes, such as 10.1.0.0/16,2001:db8::/32, at most 64",
	  "PREFIX,.. local hosts, whose flows are detected (none)" },
	{ "only", read_only, "must be protocols, such as tcp,udp",
	  "NAME,..    detect only these protocols (all)" },
	{ "ports", read_ports,
	  "must be ports, such as 80,443,5000-5100, at most 64",
	  "PORTS,..  detect only flows with one of these ports (all)" },
	{ "sessions", read_sessions,
	  "must be flow, pair, host, or prefix/1 to prefix/64",
	  "KIND   flow, pair (of hosts), host or prefix/LENGTH that share (flow)" },
	{ "weight", read_weights,
	  "must be \"PREFIX WEIGHT\", \"port PORT WEIGHT\" or \"mark MARK WEIGHT\", with a WEIGHT of 1 to 900, at most 64",
	  "WHAT N,.. weights of \"PREFIX\", \"port PORT\" or \"mark MARK\" (none)" },
	{ "idle", read_idle, "must be 1s to 3600s",
	  "TIME       idle time after which a flow ends (10s)" },
	{ "initial", read_initial, "must be 1bit to 1000tbit",
	  "RATE    initial demand of a detected flow (1mbit)" },
	{ "join-packets", read_join_packets, "must be 0 to 1000000",
	  "NUMBER  packets of a flow before it gets a session (10)" },
	{ "join-bytes", read_join_bytes, "must be 0 to 1024g",
	  "SIZE      the same in bytes (15000)" },
	{ "host-sessions", read_host_sessions, "must be 1 to 1000000",
	  "NUMBER maximum detected sessions of a host (1000)" },
	{ "host-connections", read_host_connections, "must be 1 to 262144",
	  "NUMBER maximum connections of a host that may get sessions (16384)" },
	{ "connections", read_connections, "must be 1024 to 1048576",
	  "NUMBER  connections that are counted where rates are enforced (65536)" },
	{ "prefix-sessions", read_prefix_sessions, "must be 1 to 1000000",
	  "NUMBER maximum detected sessions of a prefix of hosts (20000)" },
	{ "user-sessions", read_user_sessions, "must be 1 to 1000000",
	  "NUMBER maximum sessions of a user, except root (1000)" },
	{ "user-weight", read_user_weight, "must be 1 to 1000000",
	  "NUMBER maximum weight of all sessions of a user, except root (1)" },
	{ "max-sessions", read_max_sessions, "must be 1 to 1000000",
	  "NUMBER maximum sessions of all (65536)" },
	{ "devices", read_devices, "must be names of devices, at most 16",
	  "NAME,.. enforce assigned rates on packets sent by these" },
	{ "unassigned", read_unassigned,
	  "must be 1bit to 1000tbit, or 0.1% to 100%",
	  "RATE rate, or share of the device's rate, that all packets of local\n"
	  "                    hosts without an assigned rate share (5%)" },
	{ "backlog", read_backlog, "must be 10ms to 1s",
	  "TIME    longest time that a packet waits at its rate (100ms)" },
	{ "excess", read_excess, "must be drop or unassigned",
	  "drop|unassigned\n"
	  "                    packets above their rates, but TCP: drop them, or let them\n"
	  "                    use what --unassigned leaves (drop)" },
	{ "windows", read_windows, "must be on or off",
	  "on|off  lower the receive windows of TCP to what rates need (on)" },
	{ "windows-except", read_windows_except,
	  "must be prefixes, such as 10.1.0.0/16,2001:db8::/32, at most 64",
	  "PREFIX,..\n"
	  "                    but not those of these hosts, at either end (none)" },
	{ "borrow", read_borrow, "must be on or off",
	  "on|off   let TCP exceed its rate while it grows; needs windows (off)" },
	{ "marks", read_marks, "must be on or off",
	  "on|off    mark packets for links with bands; needs devices (off)" },
	{ "mark-new", read_mark_new, STANDARD_MARK,
	  "DSCP   of packets at the start of connections (3)" },
	{ "mark-assigned", read_mark_assigned, STANDARD_MARK,
	  "DSCP\n"
	  "                    of packets within the rates of sessions (7)" },
	{ "domain", read_domain, "must be names of devices, at most 16",
	  "NAME,..  believe marks of packets that arrive by these (none)" },
	{ "pins", read_pins,
	  "must be none, or an absolute path of at most 107 bytes in a bpffs",
	  "PATH       enforce rates until the next slbnd takes over from here (none)" },
	{ "state", read_state,
	  "must be none, or an absolute path of at most 107 bytes",
	  "PATH      file with the sessions, for the next slbnd (none)" },
	{ "log-level", read_log_level, "must be error, warning, info or debug",
	  "LEVEL least important messages to log (info)" },
};

#define KNOWN (sizeof(known) / sizeof(*known))

static_assert(KNOWN <= OPTIONS_MAX, "struct options has no room");

/* What getopt_long() returns: of known[n] OPTION_KNOWN + n. */
enum {
	OPTION_CONFIG = 256,
	OPTION_CHECK,
	OPTION_KNOWN,
};

static bool read_option(struct options *options, const struct origin *origin,
			size_t n, const char *value)
{
	/* Lists accumulate in one source; the command line replaces the file's. */
	options->append = options->source[n] == origin->source;
	options->source[n] = origin->source;
	options->problem = known[n].syntax;
	return known[n].read(options, value) ||
	       report(origin, known[n].name, options->problem);
}

static bool read_setting(struct options *options, const struct origin *origin,
			 const char *name, const char *value)
{
	size_t n;

	for (n = 0; n < KNOWN; n++) {
		if (strcmp(name, known[n].name))
			continue;
		return value ? read_option(options, origin, n, value) :
			       report(origin, name, "needs a value");
	}
	return report(origin, name, "unknown option; see --help");
}

static bool read_line(struct options *options, const struct origin *origin,
		      char *line)
{
	static const char blank[] = " \t\r\n";
	char *name = line + strspn(line, blank);
	char *value, *end;

	if (!*name || *name == '#')
		return true;
	end = name + strcspn(name, " \t\r\n=");
	value = end + strspn(end, blank);
	if (*value != '=') {
		*end = 0;
		return report(origin, name, "must be \"name = value\"");
	}
	*end = 0;
	value++;
	value += strspn(value, blank);
	end = value + strlen(value);
	while (end > value && strchr(blank, end[-1]))
		*--end = 0;
	return read_setting(options, origin, name, *value ? value : NULL);
}

/* Read a line into LINE_LENGTH octets, and set its length. Returns false behind the last one. */
static bool get_line(char *line, size_t *length, FILE *file)
{
	/* So that the last NUL is that behind the line. */
	memset(line, ' ', LINE_LENGTH);
	if (!fgets(line, LINE_LENGTH, file))
		return false;
	*length = (const char *)memrchr(line, 0, LINE_LENGTH) - line;
	return true;
}

static bool read_file(struct options *options, const char *path, bool required)
{
	struct origin origin = { .source = OPTIONS_FROM_FILE, .file = path };
	char line[LINE_LENGTH];
	bool valid = true;
	FILE *file = fopen(path, "re");
	const char *damage;
	size_t length;

	if (!file) {
		if (!required && errno == ENOENT)
			return true;
		log_error("%s: %s", path, strerror(errno));
		return false;
	}
	while (valid && get_line(line, &length, file)) {
		damage = NULL;
		if (strlen(line) < length)
			damage = "the line has a NUL: the file is damaged";
		else if (length == sizeof(line) - 1)
			damage = "the line is too long";
		origin.line++;
		valid = damage ? report(&origin, "...", damage) :
				 read_line(options, &origin, line);
	}
	if (valid && ferror(file)) {
		log_error("%s: read error", path);
		valid = false;
	}
	fclose(file);
	return valid;
}

/* Print what getopt_long() found invalid in the argument @text. */
static enum options_result report_argument(int option, const char *text)
{
	log_error(option == ':' ? "%s: needs a value" :
				  "%s: unknown option; see --help",
		  text);
	return OPTIONS_INVALID;
}

/* getopt_long()'s table of all options. */
static const struct option *long_options(void)
{
	static struct option table[KNOWN + 5] = {
		{ "config", required_argument, NULL, OPTION_CONFIG },
		{ "check", no_argument, NULL, OPTION_CHECK },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
	};
	size_t n;

	for (n = 0; n < KNOWN; n++)
		table[4 + n] =
			(struct option){ known[n].name, required_argument, NULL,
					 OPTION_KNOWN + n };
	return table;
}

/* What the command line asks for, and *@file, which it overrides. */
static enum options_result read_commands(int argc, char **argv,
					 const char **file)
{
	enum options_result result = OPTIONS_RUN;
	int option, at;

	opterr = 0;
	for (optind = 0, at = 1;; at = optind) {
		option = getopt_long(argc, argv, "+:hV", long_options(), NULL);
		if (option == -1)
			break;
		if (option == 'h')
			return OPTIONS_HELP;
		if (option == 'V')
			return OPTIONS_VERSION;
		if (option == OPTION_CHECK)
			result = OPTIONS_CHECK;
		else if (option == OPTION_CONFIG)
			*file = optarg;
		else if (option < OPTION_KNOWN)
			return report_argument(option, argv[at]);
	}
	if (optind == argc)
		return result;
	log_error("unknown argument \"%s\"; see --help", argv[optind]);
	return OPTIONS_INVALID;
}

/* Do the options go together? */
static bool fits_together(const struct options *options)
{
	static const char lacking[] =
		"borrow: needs \"windows on\", which bound what borrowers send";

	const char *problem = NULL;

	if (options->flows.borrow && !options->windows)
		problem = lacking;
	else if (options->marks.on && !options->device_count)
		problem = "marks: needs devices, which packets are marked on";
	else if (options->marks.new == options->marks.assigned)
		problem = "mark-new and mark-assigned must differ";
	if (problem)
		log_error("%s", problem);
	return !problem;
}

/**
 * options_read() - read the configuration file and the command line
 * @options: set
 * @argc: of main()
 * @argv: of main()
 *
 * Return: what to do; OPTIONS_INVALID after printing an error.
 */
enum options_result options_read(struct options *options, int argc, char **argv)
{
	const struct origin origin = { .source = OPTIONS_FROM_COMMAND };
	const char *file = NULL;
	enum options_result result = read_commands(argc, argv, &file);
	int option;

	if (result != OPTIONS_RUN && result != OPTIONS_CHECK)
		return result;
	*options = (struct options){
		.agent = {
			.epoch = 1000000000,
			.pause = 5000000,
			.control = 10,
			.hops = SLBN_HOPS_DEFAULT,
			.margin = SLBN_LEASE_MARGIN,
			.max_sessions = AGENT_SESSIONS,
		},
		.connections = CONNECTIONS_DEFAULT,
		.socket = SLBN_SOCKET,
		.user_sessions = API_USER_SESSIONS,
		.user_weight = API_USER_WEIGHT,
		.flows = {
			.idle = 10000000000,
			.initial = 1000000,
			.join_packets = FLOWS_JOIN_PACKETS,
			.join_bytes = FLOWS_JOIN_BYTES,
			.admit = {
				.host_sessions = FLOWS_HOST_SESSIONS,
				.host_connections = FLOWS_HOST_CONNECTIONS,
				.prefix_sessions = FLOWS_PREFIX_SESSIONS,
			},
		},
		.unassigned_share = ENFORCE_UNASSIGNED_SHARE,
		.backlog = ENFORCE_QUEUE,
		.marks = {
			.new = DRR_FQ_BANDS_MARK_NEW_DEFAULT,
			.assigned = DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT,
		},
		.windows = true,
		.log_level = LOG_INFO,
	};
	if (!read_file(options, file ?: OPTIONS_FILE, file))
		return OPTIONS_INVALID;
	for (optind = 0;;) {
		option = getopt_long(argc, argv, "+:", long_options(), NULL);
		if (option == -1)
			return fits_together(options) ? result :
							OPTIONS_INVALID;
		if (option >= OPTION_KNOWN &&
		    !read_option(options, &origin, option - OPTION_KNOWN,
				 optarg))
			return OPTIONS_INVALID;
	}
}

/**
 * options_help() - print --help
 */
void options_help(void)
{
	size_t n;

	puts("Usage: slbnd [OPTION]...\n"
	     "\n"
	     "The SLBN agent of an access router: keeps sessions for programs and detected\n"
	     "flows, exchanges control packets with the links on their paths, reports the\n"
	     "assigned rates, and enforces them.\n");
	for (n = 0; n < sizeof(known) / sizeof(*known); n++)
		printf("  --%s %s\n", known[n].name, known[n].help);
	puts("  --config PATH     configuration file with lines \"name = value\"; options on\n"
	     "                    the command line override it (" OPTIONS_FILE
	     ", if it\n"
	     "                    exists)\n"
	     "  --check           check options, file and devices, and exit\n"
	     "  -h, --help        show this help\n"
	     "  -V, --version     show the version\n"
	     "\n"
	     "SIGHUP reloads the configuration; SIGTERM ends all sessions, then slbnd; SIGUSR1\n"
	     "leaves them to the next slbnd.");
}
