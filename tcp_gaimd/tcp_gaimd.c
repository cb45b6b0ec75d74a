// SPDX-License-Identifier: GPL-2.0
/*
 * GAIMD(alpha, beta) as a congestion control for Linux: "gaimd".
 *
 * gaimd_core.h implements the algorithm; this file connects it to the stack.
 * Slow start, recovery (PRR), ECN, undo and idle restart are the stack's, as
 * for Reno: GAIMD only changes the increase and the decrease.
 *
 * Parameters: cc_params.h. The tracepoint gaimd_window shows the state;
 * inet_diag has no attribute for it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <net/tcp.h>

#include <fairpath/cc_ecn.h>
#include <fairpath/cc_params.h>

#include "gaimd_core.h"

enum gaimd_phase {
	GAIMD_SLOW_START,
	GAIMD_INCREASE,
	GAIMD_LOSS,
	GAIMD_ECN, /* reduced by beta_ecn */
};

#define CREATE_TRACE_POINTS
#include "gaimd_trace.h"

/**
 * struct gaimd - private data of a connection
 * @params: parameters, copied when the connection started
 * @ece: the last ACK had ECE
 * @vars: the algorithm's state
 */
struct gaimd {
	struct gaimd_params params;
	bool ece;
	struct gaimd_vars vars;
};

/* Yang and Lam's choice: GAIMD(0.31, 7/8). */
#define GAIMD_DEFAULT                     \
	{                                 \
		.alpha = 310, .beta = 875 \
	}

static const struct {
	const char *name;
	struct gaimd_params params;
} gaimd_presets[] = {
	{ "gaimd", GAIMD_DEFAULT },
	{ "tcp", { .alpha = 1000, .beta = 500 } },
	{ "aimd32", { .alpha = 32000, .beta = 875 } },
};

/* Of Yang and Lam: with alpha 1000 twice the rate of Reno; with 999 it is 26 times. */
#define GAIMD_BETA_USER_MAX 875

static const struct cc_family gaimd_family;
static struct gaimd_params gaimd_initial = GAIMD_DEFAULT;
static unsigned int gaimd_net_id __read_mostly;

static const struct cc_param gaimd_params[] = {
	{
		.family = &gaimd_family,
		.name = "gaimd_alpha",
		.offset = offsetof(struct gaimd_params, alpha),
		.min = GAIMD_ALPHA_MIN,
		.max = GAIMD_ALPHA_MAX,
		.user_max = FP_PACKET,
	},
	{
		.family = &gaimd_family,
		.name = "gaimd_beta",
		.offset = offsetof(struct gaimd_params, beta),
		.min = GAIMD_BETA_MIN,
		.max = GAIMD_BETA_MAX,
		.user_max = GAIMD_BETA_USER_MAX,
	},
	{
		.family = &gaimd_family,
		.name = "gaimd_beta_ecn",
		.offset = offsetof(struct gaimd_params, beta_ecn),
		.max = GAIMD_BETA_MAX,
		.user_max = GAIMD_BETA_USER_MAX,
	},
};

/*
 * td-friendly and to-friendly compute alpha from beta: from the current beta,
 * or from one given in thousandths ("td-friendly 875").
 */
static int gaimd_preset_friendly(struct gaimd_params *params, const char *text)
{
	size_t len = strlen("td-friendly");
	u32 (*alpha)(u32 beta);

	if (!strncmp(text, "td-friendly", len))
		alpha = gaimd_alpha_td;
	else if (!strncmp(text, "to-friendly", len))
		alpha = gaimd_alpha_to;
	else
		return -EINVAL;

	if (text[len] == ' ') {
		int err =
			cc_param_set(&gaimd_params[1], params, text + len + 1);

		if (err)
			return err;
	} else if (text[len]) {
		return -EINVAL;
	}
	params->alpha = alpha(params->beta);
	params->beta_ecn = 0;
	return 0;
}

static int gaimd_preset_set(void *params, const char *text)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(gaimd_presets); i++) {
		if (!strcmp(text, gaimd_presets[i].name)) {
			memcpy(params, &gaimd_presets[i].params,
			       sizeof(gaimd_presets[i].params));
			return 0;
		}
	}
	return gaimd_preset_friendly(params, text);
}

static const char *gaimd_preset_name(const void *params)
{
	const struct gaimd_params *p = params;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(gaimd_presets); i++)
		if (!memcmp(p, &gaimd_presets[i].params, sizeof(*p)))
			return gaimd_presets[i].name;
	if (p->beta_ecn)
		return "custom";
	if (p->alpha == gaimd_alpha_td(p->beta))
		return "td-friendly";
	if (p->alpha == gaimd_alpha_to(p->beta))
		return "to-friendly";
	return "custom";
}

static int gaimd_check(const void *params)
{
	const struct gaimd_params *p = params;

	return p->beta_ecn && p->beta_ecn < p->beta ? -EINVAL : 0;
}

static const struct cc_family gaimd_family = {
	.initial = &gaimd_initial,
	.size = sizeof(struct gaimd_params),
	.params = gaimd_params,
	.count = ARRAY_SIZE(gaimd_params),
	.preset_sysctl = "gaimd_preset",
	.available_sysctl = "gaimd_available_presets",
	.available = "gaimd tcp aimd32 td-friendly to-friendly",
	.preset_set = gaimd_preset_set,
	.preset_name = gaimd_preset_name,
	.check = gaimd_check,
	.net_id = &gaimd_net_id,
};

static const struct kernel_param_ops gaimd_value_ops = {
	.set = cc_module_param_set,
	.get = cc_module_param_get,
};

static const struct kernel_param_ops gaimd_preset_ops = {
	.set = cc_module_preset_set,
	.get = cc_module_preset_get,
};

module_param_cb(alpha, &gaimd_value_ops, (void *)&gaimd_params[0], 0444);
MODULE_PARM_DESC(alpha,
		 "increase per round-trip [1/1000 packet], 1 to 1000000");
module_param_cb(beta, &gaimd_value_ops, (void *)&gaimd_params[1], 0444);
MODULE_PARM_DESC(beta,
		 "window after a loss, relative to before [1/1000], 1 to 999");
module_param_cb(beta_ecn, &gaimd_value_ops, (void *)&gaimd_params[2], 0444);
MODULE_PARM_DESC(beta_ecn,
		 "the same after an ECN mark, beta to 999; 0 (default): beta");
module_param_cb(preset, &gaimd_preset_ops, (void *)&gaimd_family, 0444);
MODULE_PARM_DESC(preset,
		 "gaimd (default), tcp, aimd32, td-friendly or to-friendly");

static void gaimd_init(struct sock *sk)
{
	struct gaimd *ca = inet_csk_ca(sk);

	cc_params_copy(sock_net(sk), &gaimd_family, &ca->params);
}

static u32 gaimd_ssthresh(struct sock *sk)
{
	struct gaimd *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));
	u32 ssthresh;

	if (ca->params.beta_ecn && cc_is_ecn_reduction(sk, ca->ece)) {
		ssthresh = gaimd_decrease_ecn(&ca->params, &ca->vars, cwnd);
		trace_gaimd_window(sk, &ca->params, ssthresh, GAIMD_ECN);
	} else {
		ssthresh = gaimd_decrease(&ca->params, &ca->vars, cwnd);
		trace_gaimd_window(sk, &ca->params, ssthresh, GAIMD_LOSS);
	}
	return ssthresh;
}

static void gaimd_in_ack_event(struct sock *sk, u32 flags)
{
	struct gaimd *ca = inet_csk_ca(sk);

	ca->ece = flags & CA_ACK_ECE;
}

static void gaimd_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct gaimd *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = tcp_snd_cwnd(tp);

	if (!tcp_is_cwnd_limited(sk))
		return;

	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_snd_cwnd_set(tp, gaimd_increase(&ca->params, &ca->vars,
						    &tp->snd_cwnd_cnt,
						    tcp_snd_cwnd(tp),
						    tp->snd_cwnd_clamp, acked));

	if (tcp_snd_cwnd(tp) != before)
		trace_gaimd_window(sk, &ca->params, tp->snd_ssthresh,
				   tcp_in_slow_start(tp) ? GAIMD_SLOW_START :
							   GAIMD_INCREASE);
}

static struct tcp_congestion_ops gaimd_ops __read_mostly = {
	.init = gaimd_init,
	.ssthresh = gaimd_ssthresh,
	.cong_avoid = gaimd_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.in_ack_event = gaimd_in_ack_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.owner = THIS_MODULE,
	.name = "gaimd",
};

static int __net_init gaimd_net_init(struct net *net)
{
	return cc_net_init(net, &gaimd_family);
}

static void __net_exit gaimd_net_exit(struct net *net)
{
	cc_net_exit(net, &gaimd_family);
}

static struct pernet_operations gaimd_net_ops = {
	.init = gaimd_net_init,
	.exit = gaimd_net_exit,
	.id = &gaimd_net_id,
	.size = sizeof(struct cc_net),
};

static int __init gaimd_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct gaimd) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(sizeof(struct gaimd_params) > CC_PARAMS_MAX);

	err = cc_params_init(&gaimd_family);
	if (err) {
		pr_err("beta_ecn is less than beta: load with beta_ecn 0 or beta to 999\n");
		return err;
	}

	err = register_pernet_subsys(&gaimd_net_ops);
	if (err)
		return err;

	err = tcp_register_congestion_control(&gaimd_ops);
	if (err)
		unregister_pernet_subsys(&gaimd_net_ops);
	return err;
}

static void __exit gaimd_unregister(void)
{
	tcp_unregister_congestion_control(&gaimd_ops);
	unregister_pernet_subsys(&gaimd_net_ops);
}

module_init(gaimd_register);
module_exit(gaimd_unregister);

MODULE_LICENSE("GPL");
MODULE_AUTHOR(FAIRPATH_AUTHOR);
MODULE_VERSION(FAIRPATH_VERSION);
MODULE_DESCRIPTION("General AIMD congestion control (Yang, Lam 2000)");
