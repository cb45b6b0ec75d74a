/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parsers of userspace/common/units.h by those of iproute2. scripts/upstream
 * puts them, and units.c's formatters, into tc/q_drr_fq.c.
 */
static bool units_size(const char *text, __u64 *value)
{
	unsigned int bytes;

	if (get_size(&bytes, text))
		return false;
	*value = bytes;
	return true;
}

/* @value: ns */
static bool units_time(const char *text, __u64 *value)
{
	unsigned int us;

	if (get_time(&us, text))
		return false;
	*value = us * 1000ULL;
	return true;
}

/* @min, @max: per cent; @value: per mille */
static bool units_permille(const char *text, double min, double max,
			   __u64 *value)
{
	double fraction;

	if (parse_percent(&fraction, text))
		return false;
	*value = fraction * 1000 + 0.5;
	return *value >= min * 10 && *value <= max * 10;
}
