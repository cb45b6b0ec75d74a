/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parameters of a congestion control, per network namespace.
 *
 * A congestion control has a struct of u32 parameters and a few named presets,
 * described by a struct cc_family, which provides
 *
 * - module parameters: the initial values of each namespace (read-only after
 *   the module is loaded; an invalid value fails the load);
 * - net.ipv4.NAME: a sysctl for each parameter, in every namespace;
 * - net.ipv4.FAMILY_preset: sets all parameters, and reads as the preset that
 *   they match or "custom"; net.ipv4.FAMILY_available_presets lists the
 *   presets.
 *
 * A connection copies the parameters when it starts (cc_params_copy()), without
 * a lock, so it never sees a partial change, and connections with different
 * parameters can coexist in a namespace.
 *
 * One parser reads all values: it rejects invalid text with -EINVAL and then
 * changes nothing. Values above user_max, for laboratories, need CAP_NET_ADMIN
 * in the initial user namespace (-EPERM); setting one is logged once.
 */
#ifndef FAIRPATH_CC_PARAMS_H
#define FAIRPATH_CC_PARAMS_H

#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

/* Maximum size of the struct of parameters and of a value's text [bytes]. */
#define CC_PARAMS_MAX 32
#define CC_VALUE_MAX 96

struct cc_family;

/**
 * struct cc_param - one parameter
 * @family: the family that it belongs to
 * @name: name of its sysctl, under net.ipv4
 * @offset: offset of its u32 in the struct of parameters
 * @min: minimum value
 * @max: maximum value
 * @user_max: maximum value without CAP_NET_ADMIN in the initial user namespace;
 *	0: @max
 * @names: names of the values 0 to @max, NULL for a number
 */
struct cc_param {
	const struct cc_family *family;
	const char *name;
	u32 offset;
	u32 min;
	u32 max;
	u32 user_max;
	const char *const *names;
};

/**
 * struct cc_family - the parameters of a congestion control
 * @initial: initial values of a new namespace, set by module parameters
 * @size: size of the struct of parameters [bytes]
 * @params: the parameters, without the two presets
 * @count: number of @params
 * @preset_sysctl: name of the sysctl that sets a preset
 * @available_sysctl: name of the sysctl that lists the presets
 * @available: the list of presets
 * @preset_set: set all parameters to a preset, or return -EINVAL
 * @preset_name: return the name of the matching preset, or "custom"
 * @check: return -EINVAL if the values are inconsistent; may be NULL
 * @net_id: net_generic() id of the per-namespace state
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
 * struct cc_net - parameters of a network namespace
 * @lock: of @params
 * @family: the congestion control
 * @header: the registered sysctls
 * @table: table of the sysctls
 * @params: the family's struct of parameters
 */
struct cc_net {
	seqlock_t lock;
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

	if (param->names) {
		err = __sysfs_match_string(param->names, param->max + 1, text);
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

	if (param->names)
		strscpy(text, param->names[*value], CC_VALUE_MAX);
	else
		snprintf(text, CC_VALUE_MAX, "%u", *value);
}

static inline int cc_params_check(const struct cc_family *family,
				  const void *params)
{
	return family->check ? family->check(params) : 0;
}

/* Return the first parameter that is raised above its user_max, or NULL. */
static inline const struct cc_param *
cc_params_raised(const struct cc_family *family, const void *before,
		 const void *after)
{
	unsigned int i;

	for (i = 0; i < family->count; i++) {
		const struct cc_param *param = &family->params[i];
		const u32 *was = before + param->offset;
		const u32 *is = after + param->offset;

		if (param->user_max && *is > param->user_max && *is > *was)
			return param;
	}
	return NULL;
}

static inline void cc_params_warn(const struct cc_param *param)
{
	pr_warn_once("%s above %u is for laboratories only\n", param->name,
		     param->user_max);
}

/* Copy the parameters of a namespace. */
static inline void cc_net_read(struct cc_net *cc, void *params, size_t size)
{
	unsigned int seq;

	do {
		seq = read_seqbegin(&cc->lock);
		memcpy(params, cc->params, size);
	} while (read_seqretry(&cc->lock, seq));
}

/* Set @param, or a preset if it is NULL, from @text. */
static inline int cc_net_write(struct cc_net *cc, const struct cc_param *param,
			       const char *text)
{
	const struct cc_family *family = cc->family;
	bool privileged = ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
	u64 params[CC_PARAMS_MAX / sizeof(u64)];
	const struct cc_param *raised = NULL;
	int err;

	write_seqlock_bh(&cc->lock);
	memcpy(params, cc->params, sizeof(params));
	if (param)
		err = cc_param_set(param, params, text);
	else
		err = family->preset_set(params, text);
	if (!err)
		err = cc_params_check(family, params);
	if (!err) {
		raised = cc_params_raised(family, cc->params, params);
		if (raised && !privileged)
			err = -EPERM;
	}
	if (!err)
		memcpy(cc->params, params, sizeof(params));
	write_sequnlock_bh(&cc->lock);

	if (!err && raised)
		cc_params_warn(raised);
	return err;
}

/* Handler of all sysctls; extra1 is the parameter, NULL for the presets. */
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

	cc_net_read(cc, params, sizeof(params));
	if (param)
		cc_param_show(param, params, text);
	else
		strscpy(text,
			list ? family->available : family->preset_name(params),
			sizeof(text));

	err = proc_dostring(&string, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	/* A full buffer may hold truncated text. */
	if (strlen(text) == sizeof(text) - 1)
		return -EINVAL;
	return cc_net_write(cc, param, strim(text));
}

/**
 * cc_net_init() - set up the parameters and sysctls of a new namespace
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

	/* Parameters, two presets, a sentinel for old kernels (compat). */
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

	seqlock_init(&cc->lock);
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
 * cc_params_copy() - copy a namespace's current parameters
 * @net: the connection's namespace
 * @family: the parameters' family
 * @params: destination, @family->size bytes
 */
static inline void cc_params_copy(const struct net *net,
				  const struct cc_family *family, void *params)
{
	cc_net_read(net_generic(net, *family->net_id), params, family->size);
}

/**
 * cc_params_init() - validate the module parameters, when the module is loaded
 * @family: the parameters
 *
 * Logs initial values above user_max.
 *
 * Return: 0, or -EINVAL if the values are inconsistent.
 */
static inline int cc_params_init(const struct cc_family *family)
{
	const u64 zero[CC_PARAMS_MAX / sizeof(u64)] = {};
	const struct cc_param *raised;
	int err;

	err = cc_params_check(family, family->initial);
	if (err)
		return err;
	raised = cc_params_raised(family, zero, family->initial);
	if (raised)
		cc_params_warn(raised);
	return 0;
}

/* For module parameters, kp->arg is the parameter; for presets, the family. */
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
