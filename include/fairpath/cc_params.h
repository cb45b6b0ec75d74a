/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parameters of a congestion control, for each network namespace its own.
 *
 * A congestion control has a struct of u32 parameters and a few named presets.
 * It describes them once, in a struct cc_family; from that come
 *
 * - module parameters: what each namespace starts with (read-only once the
 *   module is loaded; a value out of range fails the load);
 * - net.ipv4.NAME: one sysctl for each, in every namespace;
 * - net.ipv4.FAMILY_preset: sets all at once, and tells which preset they are
 *   ("custom" if none); net.ipv4.FAMILY_available_presets names those there are.
 *
 * A connection copies the parameters when it starts (cc_params_copy()) and
 * keeps them: it never sees half of a change, and flows with different
 * parameters can run side by side in one namespace.
 *
 * Every value is text to one and the same parser, which takes all of it or
 * refuses it with -EINVAL and changes nothing.
 */
#ifndef FAIRPATH_CC_PARAMS_H
#define FAIRPATH_CC_PARAMS_H

#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

/* The longest struct of parameters, and the longest text of a value. */
#define CC_PARAMS_MAX 32
#define CC_VALUE_MAX 96

struct cc_family;

/**
 * struct cc_param - one parameter
 * @family: whose it is
 * @name: as a sysctl, under net.ipv4
 * @offset: of its u32 in the struct of parameters
 * @min: smallest value
 * @max: largest value
 * @words: names for the values from 0 to @max, NULL if it is a number
 */
struct cc_param {
	const struct cc_family *family;
	const char *name;
	u32 offset;
	u32 min;
	u32 max;
	const char *const *words;
};

/**
 * struct cc_family - the parameters of a congestion control
 * @initial: what a new namespace starts with; module parameters write here
 * @size: of the struct of parameters
 * @params: the parameters, without the two for presets
 * @count: their number
 * @preset_sysctl: name of the sysctl that sets a preset
 * @available_sysctl: name of the sysctl that lists the presets
 * @available: the list
 * @preset_set: set all to the preset in the text, or -EINVAL
 * @preset_name: name of the preset that they are, or "custom"
 * @check: -EINVAL if the values do not go together; may be NULL
 * @net_id: of the per-namespace state
 */
struct cc_family {
	void *initial;
	size_t size;
	const struct cc_param *params;
	unsigned int count;
	const char *preset_sysctl;
	const char *available_sysctl;
	const char *available;
	int (*preset_set)(void *params, const char *text);
	const char *(*preset_name)(const void *params);
	int (*check)(const void *params);
	unsigned int *net_id;
};

/**
 * struct cc_net - a namespace's parameters
 * @lock: held to read or to write @params
 * @family: which congestion control
 * @header: of the registered sysctls
 * @table: the sysctls
 * @params: the family's struct of parameters
 */
struct cc_net {
	spinlock_t lock; /* params */
	const struct cc_family *family;
	struct ctl_table_header *header;
	struct ctl_table *table;
	u64 params[CC_PARAMS_MAX / sizeof(u64)];
};

static inline int cc_param_set(const struct cc_param *param, void *params,
			       const char *text)
{
	u32 *value = params + param->offset;
	u32 v;
	int err;

	if (param->words) {
		err = match_string(param->words, param->max + 1, text);
		if (err < 0)
			return -EINVAL;
		*value = err;
		return 0;
	}

	err = kstrtou32(text, 10, &v);
	if (err)
		return -EINVAL;
	if (v < param->min || v > param->max)
		return -EINVAL;
	*value = v;
	return 0;
}

static inline void cc_param_show(const struct cc_param *param,
				 const void *params, char *text)
{
	const u32 *value = params + param->offset;

	if (param->words)
		strscpy(text, param->words[*value], CC_VALUE_MAX);
	else
		snprintf(text, CC_VALUE_MAX, "%u", *value);
}

static inline int cc_params_check(const struct cc_family *family,
				  const void *params)
{
	return family->check ? family->check(params) : 0;
}

/* The sysctls. extra1 is the parameter, or NULL for the two about presets. */
static inline int cc_sysctl(ctl_table_const struct ctl_table *table, int write,
			    void *buffer, size_t *lenp, loff_t *ppos)
{
	struct cc_net *cc = table->data;
	const struct cc_family *family = cc->family;
	const struct cc_param *param = table->extra1;
	bool list = !strcmp(table->procname, family->available_sysctl);
	u64 params[CC_PARAMS_MAX / sizeof(u64)];
	char text[CC_VALUE_MAX];
	struct ctl_table string = { .data = text, .maxlen = sizeof(text) };
	int err;

	spin_lock_bh(&cc->lock);
	memcpy(params, cc->params, sizeof(params));
	spin_unlock_bh(&cc->lock);

	if (param)
		cc_param_show(param, params, text);
	else
		strscpy(text,
			list ? family->available : family->preset_name(params),
			sizeof(text));

	err = proc_dostring(&string, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	/* As long as fits may mean that its end was cut off. */
	if (strlen(text) == sizeof(text) - 1)
		return -EINVAL;

	spin_lock_bh(&cc->lock);
	memcpy(params, cc->params, sizeof(params));
	if (param)
		err = cc_param_set(param, params, strim(text));
	else
		err = family->preset_set(params, strim(text));
	if (!err)
		err = cc_params_check(family, params);
	if (!err)
		memcpy(cc->params, params, sizeof(params));
	spin_unlock_bh(&cc->lock);
	return err;
}

/**
 * cc_net_init() - give a new namespace its parameters and sysctls
 * @net: the namespace
 * @family: the parameters
 *
 * Return: 0 or -ENOMEM.
 */
static inline int cc_net_init(struct net *net, const struct cc_family *family)
{
	struct cc_net *cc = net_generic(net, *family->net_id);
	unsigned int i, n = family->count;
	struct ctl_table *table;

	/* One for each parameter, two for presets, an empty one: see compat. */
	table = kcalloc(n + 3, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;

	for (i = 0; i < n + 2; i++) {
		table[i].data = cc;
		table[i].mode = 0644;
		table[i].proc_handler = cc_sysctl;
	}
	for (i = 0; i < n; i++) {
		table[i].procname = family->params[i].name;
		table[i].extra1 = (void *)&family->params[i];
	}
	table[n].procname = family->preset_sysctl;
	table[n + 1].procname = family->available_sysctl;
	table[n + 1].mode = 0444;

	spin_lock_init(&cc->lock);
	cc->family = family;
	memcpy(cc->params, family->initial, family->size);
	cc->table = table;
	cc->header = register_net_sysctl_sz(net, "net/ipv4", table, n + 2);
	if (!cc->header) {
		kfree(table);
		return -ENOMEM;
	}
	return 0;
}

static inline void cc_net_exit(struct net *net, const struct cc_family *family)
{
	struct cc_net *cc = net_generic(net, *family->net_id);

	unregister_net_sysctl_table(cc->header);
	kfree(cc->table);
}

/**
 * cc_params_copy() - take the parameters in force
 * @net: the connection's namespace
 * @family: which parameters
 * @params: copied to here
 */
static inline void cc_params_copy(const struct net *net,
				  const struct cc_family *family, void *params)
{
	struct cc_net *cc = net_generic(net, *family->net_id);

	spin_lock_bh(&cc->lock);
	memcpy(params, cc->params, family->size);
	spin_unlock_bh(&cc->lock);
}

/* Module parameters: kp->arg is the parameter, or the family for a preset. */
static inline int cc_module_param_set(const char *text,
				      const struct kernel_param *kp)
{
	const struct cc_param *param = kp->arg;

	return cc_param_set(param, param->family->initial, text);
}

static inline int cc_module_param_get(char *buffer,
				      const struct kernel_param *kp)
{
	const struct cc_param *param = kp->arg;
	char text[CC_VALUE_MAX];

	cc_param_show(param, param->family->initial, text);
	return sysfs_emit(buffer, "%s\n", text);
}

static inline int cc_module_preset_set(const char *text,
				       const struct kernel_param *kp)
{
	const struct cc_family *family = kp->arg;

	return family->preset_set(family->initial, text);
}

static inline int cc_module_preset_get(char *buffer,
				       const struct kernel_param *kp)
{
	const struct cc_family *family = kp->arg;

	return sysfs_emit(buffer, "%s\n", family->preset_name(family->initial));
}

#endif /* FAIRPATH_CC_PARAMS_H */
