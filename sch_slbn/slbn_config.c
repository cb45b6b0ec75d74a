// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration of a link: netlink attributes to struct slbn_config and back.
 */
#include <linux/capability.h>
#include <linux/math64.h>
#include <linux/string.h>
#include <net/netlink.h>

#include "slbn.h"

/*
 * Control packet to size the memory: over IPv4 and Ethernet, from a source that
 * has learnt that its path has 6 hops.
 */
#define SLBN_TYPICAL_SLOTS (6 + SLBN_SPARE_SLOTS)
#define SLBN_TYPICAL_BITS                                         \
	((14 + 20 + 8 +                                           \
	  slbn_length(SLBN_TYPICAL_SLOTS, SLBN_SLOT_LENGTH_V4)) * \
	 BITS_PER_BYTE)

/* Smallest memory that is derived from a time, entries. */
#define SLBN_MEMORY_MIN 64

static struct netlink_range_validation slbn_rate_range = {
	.max = SLBN_LINK_RATE_MAX,
};

static struct netlink_range_validation slbn_epoch_range = {
	.max = SLBN_EPOCH_MAX,
};

static struct netlink_range_validation slbn_memory_range = {
	.max = SLBN_MEMORY_MAX,
};

static struct netlink_range_validation slbn_memory_time_range = {
	.max = SLBN_MEMORY_TIME_MAX,
};

const struct nla_policy slbn_config_policy[TCA_SLBN_MAX + 1] = {
	[TCA_SLBN_RATE] = NLA_POLICY_FULL_RANGE(NLA_U64, &slbn_rate_range),
	[TCA_SLBN_EPOCH] = NLA_POLICY_FULL_RANGE(NLA_U64, &slbn_epoch_range),
	[TCA_SLBN_MEMORY] = NLA_POLICY_FULL_RANGE(NLA_U32, &slbn_memory_range),
	[TCA_SLBN_MEMORY_TIME] =
		NLA_POLICY_FULL_RANGE(NLA_U64, &slbn_memory_time_range),
	[TCA_SLBN_CONTROL] = NLA_POLICY_RANGE(NLA_U32, 1, SLBN_CONTROL_MAX),
	[TCA_SLBN_EDGE] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_SLBN_KEY] = { .type = NLA_BINARY, .len = SLBN_KEY_LENGTH },
	[TCA_SLBN_THRESHOLD] = NLA_POLICY_RANGE(NLA_U32, 1, SLBN_THRESHOLD_MAX),
	[TCA_SLBN_HEADROOM] = NLA_POLICY_MAX(NLA_U32, SLBN_HEADROOM_MAX),
	[TCA_SLBN_COMMIT] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_SLBN_QUIET] = NLA_POLICY_FULL_RANGE(NLA_U64, &slbn_epoch_range),
	[TCA_SLBN_HEADROOM_AUTO] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_SLBN_UNASSIGNED] = NLA_POLICY_MAX(NLA_U32, SLBN_UNASSIGNED_MAX),
	[TCA_SLBN_KEY_ID] = { .type = NLA_U8 },
};

/**
 * slbn_config_init() - set the defaults
 * @config: configuration
 */
void slbn_config_init(struct slbn_config *config)
{
	*config = (struct slbn_config){
		.epoch = SLBN_EPOCH_DEFAULT,
		.memory_time = SLBN_MEMORY_TIME_DEFAULT,
		.limited = !capable(CAP_NET_ADMIN),
		.control = SLBN_CONTROL_DEFAULT,
		.headroom = SLBN_HEADROOM_DEFAULT,
		.unassigned = SLBN_UNASSIGNED_DEFAULT,
		.threshold = SLBN_THRESHOLD_DEFAULT,
		.commit = true,
	};
}

/* Set the error message of an invalid attribute. */
#define SLBN_REJECT(extack, attr, text) \
	NL_SET_ERR_MSG_ATTR(extack, attr, KBUILD_MODNAME ": " text)

#define SLBN_MEMORY_DENIED \
	"memory above 32768 entries needs CAP_NET_ADMIN in the initial user namespace"

static int slbn_config_parse_memory(struct slbn_config *config,
				    struct nlattr **tb,
				    struct netlink_ext_ack *extack)
{
	struct nlattr *attr = tb[TCA_SLBN_MEMORY];

	if (attr && tb[TCA_SLBN_MEMORY_TIME]) {
		SLBN_REJECT(extack, attr,
			    "memory must be entries or a time, not both");
		return -EINVAL;
	}
	if (attr || tb[TCA_SLBN_MEMORY_TIME])
		config->limited = !capable(CAP_NET_ADMIN);
	if (attr) {
		config->memory = nla_get_u32(attr);
		config->memory_time = 0;
		if (config->limited && config->memory > SLBN_MEMORY_SMALL) {
			SLBN_REJECT(extack, attr, SLBN_MEMORY_DENIED);
			return -EPERM;
		}
	}
	attr = tb[TCA_SLBN_MEMORY_TIME];
	if (attr) {
		config->memory = 0;
		config->memory_time = nla_get_u64(attr);
	}
	return 0;
}

static int slbn_config_parse_headroom(struct slbn_config *config,
				      struct nlattr **tb,
				      struct netlink_ext_ack *extack)
{
	struct nlattr *automatic = tb[TCA_SLBN_HEADROOM_AUTO];
	struct nlattr *attr = tb[TCA_SLBN_HEADROOM];

	if (attr && automatic && nla_get_u8(automatic)) {
		SLBN_REJECT(extack, automatic,
			    "headroom must be auto or a part, not both");
		return -EINVAL;
	}
	if (attr) {
		config->headroom = nla_get_u32(attr);
		config->headroom_auto = false;
	}
	if (automatic)
		config->headroom_auto = nla_get_u8(automatic);
	if (tb[TCA_SLBN_UNASSIGNED])
		config->unassigned = nla_get_u32(tb[TCA_SLBN_UNASSIGNED]);
	return 0;
}

/* Read a key as siphash() needs it. */
static void slbn_read_secret(struct slbn_key *key, const struct nlattr *attr)
{
	memcpy(key->secret, nla_data(attr), sizeof(key->secret));
	le64_to_cpus(&key->secret[0]);
	le64_to_cpus(&key->secret[1]);
}

static int slbn_config_parse_key(struct slbn_config *config, struct nlattr **tb,
				 struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_SLBN_KEY];
	const struct nlattr *id = tb[TCA_SLBN_KEY_ID];

	if (id && (!attr || !nla_len(attr))) {
		SLBN_REJECT(extack, id, "key_id needs a key");
		return -EINVAL;
	}
	if (!attr)
		return 0;
	if (nla_len(attr) && nla_len(attr) != SLBN_KEY_LENGTH) {
		SLBN_REJECT(extack, attr, "key must be 16 octets, or 0: none");
		return -EINVAL;
	}
	memset(&config->keys, 0, sizeof(config->keys));
	if (nla_len(attr)) {
		slbn_read_secret(&config->keys.key[0], attr);
		config->keys.key[0].id = id ? nla_get_u8(id) : 0;
		config->keys.count = 1;
	}
	return 0;
}

/**
 * slbn_config_parse() - update a configuration from netlink attributes
 * @config: configuration; fields without an attribute are kept
 * @tb: attributes, validated against slbn_config_policy
 * @extack: set to the invalid attribute and its valid range
 *
 * Return: 0; -EINVAL; -ERANGE; or -EPERM if the memory needs a capability. On errors
 * @config may be updated in part.
 */
int slbn_config_parse(struct slbn_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack)
{
	struct nlattr *attr;
	int err;

	attr = tb[TCA_SLBN_RATE];
	if (attr) {
		config->rate = nla_get_u64(attr);
		if (config->rate && config->rate < SLBN_LINK_RATE_MIN) {
			SLBN_REJECT(extack, attr,
				    "rate must be 1 kbit/s to 1 Tbit/s, or 0");
			return -ERANGE;
		}
	}
	attr = tb[TCA_SLBN_EPOCH];
	if (attr) {
		config->epoch = nla_get_u64(attr);
		if (config->epoch && config->epoch < SLBN_EPOCH_MIN) {
			SLBN_REJECT(extack, attr,
				    "epoch must be 10 ms to 1 h, or 0: never");
			return -ERANGE;
		}
	}
	attr = tb[TCA_SLBN_QUIET];
	if (attr) {
		config->quiet = nla_get_u64(attr);
		if (config->quiet && config->quiet < SLBN_EPOCH_MIN) {
			SLBN_REJECT(extack, attr,
				    "quiet must be 10 ms to 1 h, or 0: auto");
			return -ERANGE;
		}
	}
	err = slbn_config_parse_memory(config, tb, extack);
	if (!err)
		err = slbn_config_parse_headroom(config, tb, extack);
	if (err)
		return err;
	if (tb[TCA_SLBN_CONTROL])
		config->control = nla_get_u32(tb[TCA_SLBN_CONTROL]);
	if (tb[TCA_SLBN_EDGE])
		config->edge = nla_get_u8(tb[TCA_SLBN_EDGE]);
	if (tb[TCA_SLBN_COMMIT])
		config->commit = nla_get_u8(tb[TCA_SLBN_COMMIT]);
	if (tb[TCA_SLBN_THRESHOLD])
		config->threshold = nla_get_u32(tb[TCA_SLBN_THRESHOLD]);
	return slbn_config_parse_key(config, tb, extack);
}

/**
 * slbn_config_add_key() - add the key of SLBN_C_KEY_ADD
 * @config: configuration
 * @tb: attributes, validated against the command's policy
 * @extack: set to the reason of an error
 *
 * Return: 0, also if it has this key; -EINVAL if SLBN_A_KEY or SLBN_A_KEY_ID is
 * missing, or the key too short; -EEXIST if there is another key of this number;
 * -ENOSPC if there are two keys.
 */
int slbn_config_add_key(struct slbn_config *config, struct nlattr **tb,
			struct netlink_ext_ack *extack)
{
	const struct slbn_key *known;
	struct slbn_key key;
	int err = 0;

	if (!tb[SLBN_A_KEY] || !tb[SLBN_A_KEY_ID]) {
		NL_SET_ERR_MSG_MOD(extack,
				   "no key given: set key and its key_id");
		return -EINVAL;
	}
	if (nla_len(tb[SLBN_A_KEY]) != SLBN_KEY_LENGTH) {
		SLBN_REJECT(extack, tb[SLBN_A_KEY], "key must be 16 octets");
		return -EINVAL;
	}
	/* Configurations are compared with memcmp(). */
	memset(&key, 0, sizeof(key));
	key.id = nla_get_u8(tb[SLBN_A_KEY_ID]);
	slbn_read_secret(&key, tb[SLBN_A_KEY]);
	known = slbn_key_find(&config->keys, key.id);
	if (known && memcmp(known->secret, key.secret, sizeof(key.secret))) {
		SLBN_REJECT(extack, tb[SLBN_A_KEY_ID],
			    "another key has this number: choose another");
		err = -EEXIST;
	} else if (!known && !slbn_key_add(&config->keys, &key)) {
		SLBN_REJECT(extack, tb[SLBN_A_KEY_ID],
			    "the link has two keys: retire one first");
		err = -ENOSPC;
	}
	memzero_explicit(&key, sizeof(key));
	return err;
}

/**
 * slbn_config_retire_key() - remove the key of SLBN_C_KEY_RETIRE
 * @config: configuration
 * @tb: attributes, validated against the command's policy
 * @extack: set to the reason of an error
 *
 * Return: 0; -EINVAL if SLBN_A_KEY_ID is missing; -ENOENT if there is no key of
 * this number; -EBUSY if it is the last key.
 */
int slbn_config_retire_key(struct slbn_config *config, struct nlattr **tb,
			   struct netlink_ext_ack *extack)
{
	u8 id;

	if (!tb[SLBN_A_KEY_ID]) {
		NL_SET_ERR_MSG_MOD(extack, "no key given: set its key_id");
		return -EINVAL;
	}
	id = nla_get_u8(tb[SLBN_A_KEY_ID]);
	if (!slbn_key_find(&config->keys, id)) {
		SLBN_REJECT(extack, tb[SLBN_A_KEY_ID],
			    "the link has no key of this number");
		return -ENOENT;
	}
	if (!slbn_key_retire(&config->keys, id)) {
		SLBN_REJECT(extack, tb[SLBN_A_KEY_ID],
			    "the last key is in use: add another first");
		return -EBUSY;
	}
	return 0;
}

/**
 * slbn_config_wipe() - overwrite the keys of a copy that is no longer needed
 * @config: configuration
 */
void slbn_config_wipe(struct slbn_config *config)
{
	memzero_explicit(&config->keys, sizeof(config->keys));
}

static int slbn_put_key_ids(const struct slbn_keys *keys, struct sk_buff *skb)
{
	u8 id[SLBN_KEYS_MAX];
	u32 n;

	for (n = 0; n < keys->count; n++)
		id[n] = keys->key[n].id;
	return nla_put(skb, TCA_SLBN_KEY_IDS, keys->count, id);
}

/**
 * slbn_config_put() - add a configuration to a netlink message
 * @config: configuration; of keys only the numbers
 * @skb: message
 *
 * Return: 0, or -EMSGSIZE.
 */
int slbn_config_put(const struct slbn_config *config, struct sk_buff *skb)
{
	if (nla_put_u64_64bit(skb, TCA_SLBN_RATE, config->rate, TCA_SLBN_PAD) ||
	    nla_put_u64_64bit(skb, TCA_SLBN_EPOCH, config->epoch,
			      TCA_SLBN_PAD) ||
	    nla_put_u32(skb, TCA_SLBN_CONTROL, config->control) ||
	    nla_put_u8(skb, TCA_SLBN_EDGE, config->edge) ||
	    slbn_put_key_ids(&config->keys, skb) ||
	    nla_put_u32(skb, TCA_SLBN_THRESHOLD, config->threshold) ||
	    nla_put_u8(skb, TCA_SLBN_HEADROOM_AUTO, config->headroom_auto) ||
	    nla_put_u32(skb, TCA_SLBN_UNASSIGNED, config->unassigned) ||
	    nla_put_u8(skb, TCA_SLBN_COMMIT, config->commit) ||
	    nla_put_u64_64bit(skb, TCA_SLBN_QUIET, config->quiet, TCA_SLBN_PAD))
		return -EMSGSIZE;
	if (!config->headroom_auto &&
	    nla_put_u32(skb, TCA_SLBN_HEADROOM, config->headroom))
		return -EMSGSIZE;
	if (config->memory_time)
		return nla_put_u64_64bit(skb, TCA_SLBN_MEMORY_TIME,
					 config->memory_time, TCA_SLBN_PAD);
	return nla_put_u32(skb, TCA_SLBN_MEMORY, config->memory);
}

/**
 * slbn_config_quiet() - how long a link that starts grants no rises
 * @config: configuration
 *
 * A source may have got its lease from the link before it was restarted, or
 * from other links, so the link cannot know the epoch of that lease. So the
 * default is at least the default epoch (MUST 8 of docs/protocol.md).
 *
 * Return: ns.
 */
u64 slbn_config_quiet(const struct slbn_config *config)
{
	u64 quiet = config->quiet;

	if (!quiet && config->epoch)
		quiet = SLBN_QUIET_DEFAULT;
	return max(quiet, config->epoch);
}

/* The most entries that a memory time may give at a capacity, bit/s. */
static u32 slbn_memory_time_max(const struct slbn_config *config, u64 capacity)
{
	u64 most =
		div64_u64(capacity * SLBN_MEMORY_SMALL, SLBN_MEMORY_SMALL_RATE);

	if (config->limited)
		return SLBN_MEMORY_SMALL;
	return clamp_t(u64, most, SLBN_MEMORY_SMALL, SLBN_MEMORY_TIME_ENTRIES);
}

/**
 * slbn_config_memory_entries() - size of a link's memory
 * @config: configuration
 * @capacity: bit/s, at most SLBN_LINK_RATE_MAX
 *
 * With a memory time this is the number of control packets of typical length
 * that the control limit allows in that time, within bounds.
 *
 * A limited memory does not follow the device's speed: the work that reads the
 * speed would allocate what is not charged to the user's cgroup.
 *
 * Return: entries, at most SLBN_MEMORY_MAX.
 */
u32 slbn_config_memory_entries(const struct slbn_config *config, u64 capacity)
{
	u32 most = slbn_memory_time_max(config, capacity);
	u64 packets;

	if (!config->memory_time)
		return config->memory;
	if (config->limited && !config->rate)
		return most;
	/* At most 10^12 / 1000 * 1000 / 1792 per second for 60 s: no overflow. */
	packets = div_u64(div_u64(capacity, 1000) * config->control,
			  SLBN_TYPICAL_BITS);
	packets = div_u64(packets * div_u64(config->memory_time, NSEC_PER_MSEC),
			  MSEC_PER_SEC);
	return clamp_t(u64, packets, SLBN_MEMORY_MIN, most);
}
