// SPDX-License-Identifier: GPL-2.0
/*
 * BIC as a congestion control for Linux: "bic".
 *
 * bic_core.h implements the algorithm, in the paper's form and in Linux's;
 * this file connects it to the stack. It replaces mainline's module of the same
 * name: the preset "linux" behaves like mainline's, "paper" (the default)
 * follows the paper.
 *
 * Parameters: cc_params.h. The tracepoint bic_window shows the state; inet_diag
 * has no attribute for it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <net/tcp.h>

#include <fairpath/cc_ecn.h>
#include <fairpath/cc_params.h>

#include "bic_core.h"

/* Reported by the tracepoint in addition to the algorithm's phases. */
#define BIC_LOSS (BIC_PROBING + 1)
#define BIC_ECN (BIC_LOSS + 1) /* reduced by beta_ecn */

#define CREATE_TRACE_POINTS
#include "bic_trace.h"

/**
 * struct bic - private data of a connection
 * @params: parameters, copied when the connection started
 * @ece: the last ACK had ECE
 * @vars: the algorithm's state
 */
struct bic {
	struct bic_params params;
	bool ece;
	struct bic_vars vars;
};

/**
 * struct bic_settings - parameters of a network namespace
 * @params: parameters of the algorithm
 * @initial_ssthresh: initial slow start threshold [packets], 0: unlimited
 */
struct bic_settings {
	struct bic_params params;
	u32 initial_ssthresh;
};

#define BIC_PAPER                                                         \
	{                                                                 \
		.smax = 32000, .smin = 10, .beta = 896, .low_window = 14, \
		.fast_convergence = 1, .form = BIC_FORM_PAPER             \
	}

#define BIC_LINUX                                                          \
	{                                                                  \
		.smax = 16000, .smin = 200, .beta = 819, .low_window = 14, \
		.fast_convergence = 1, .form = BIC_FORM_LINUX              \
	}

static const struct {
	const char *name;
	struct bic_settings settings;
} bic_presets[] = {
	{ "paper", { .params = BIC_PAPER } },
	{ "linux", { .params = BIC_LINUX } },
};

static const char *const bic_forms[] = {
	[BIC_FORM_PAPER] = "paper",
	[BIC_FORM_LINUX] = "linux",
};

static const struct cc_family bic_family;
static struct bic_settings bic_initial = { .params = BIC_PAPER };
static unsigned int bic_net_id __read_mostly;

/* The paper's. With 1023 a loss would hardly lower the window. */
#define BIC_BETA_USER_MAX 896

#define BIC_PARAM(member, from, to, user)                               \
	{                                                               \
		.family = &bic_family, .name = "bic_" #member,          \
		.offset = offsetof(struct bic_settings, params.member), \
		.min = (from), .max = (to), .user_max = (user),         \
	}

enum {
	BIC_SMAX,
	BIC_SMIN,
	BIC_BETA,
	BIC_LOW,
	BIC_FAST,
	BIC_FORM,
	BIC_INITIAL_SSTHRESH,
	BIC_BETA_ECN,
};

static const struct cc_param bic_params[] = {
	[BIC_SMAX] = {
		.family = &bic_family,
		.name = "bic_smax",
		.offset = offsetof(struct bic_settings, params.smax),
		.min = 1,
		.max = 1000000,
		.user_max = 32000, /* the paper's */
	},
	[BIC_SMIN] = BIC_PARAM(smin, 1, 1000000, 0),
	[BIC_BETA] = BIC_PARAM(beta, 1, BIC_BETA_SCALE - 1, BIC_BETA_USER_MAX),
	[BIC_LOW] = BIC_PARAM(low_window, 0, 1000000, 0),
	[BIC_FAST] = BIC_PARAM(fast_convergence, 0, 1, 0),
	[BIC_FORM] = {
		.family = &bic_family,
		.name = "bic_form",
		.offset = offsetof(struct bic_settings, params.form),
		.max = ARRAY_SIZE(bic_forms) - 1,
		.names = bic_forms,
	},
	[BIC_INITIAL_SSTHRESH] = {
		.family = &bic_family,
		.name = "bic_initial_ssthresh",
		.offset = offsetof(struct bic_settings, initial_ssthresh),
		.max = S32_MAX,
	},
	[BIC_BETA_ECN] = BIC_PARAM(beta_ecn, 0, BIC_BETA_SCALE - 1, BIC_BETA_USER_MAX),
};

static int bic_preset_set(void *settings, const char *text)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bic_presets); i++) {
		if (!strcmp(text, bic_presets[i].name)) {
			memcpy(settings, &bic_presets[i].settings,
			       sizeof(bic_presets[i].settings));
			return 0;
		}
	}
	return -EINVAL;
}

static const char *bic_preset_name(const void *settings)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bic_presets); i++)
		if (!memcmp(settings, &bic_presets[i].settings,
			    sizeof(bic_presets[i].settings)))
			return bic_presets[i].name;
	return "custom";
}

static int bic_check(const void *settings)
{
	const struct bic_settings *s = settings;
	const struct bic_params *p = &s->params;

	if (p->smin > p->smax)
		return -EINVAL;
	return p->beta_ecn && p->beta_ecn < p->beta ? -EINVAL : 0;
}

static const struct cc_family bic_family = {
	.initial = &bic_initial,
	.size = sizeof(struct bic_settings),
	.params = bic_params,
	.count = ARRAY_SIZE(bic_params),
	.preset_sysctl = "bic_preset",
	.available_sysctl = "bic_available_presets",
	.available = "paper linux",
	.preset_set = bic_preset_set,
	.preset_name = bic_preset_name,
	.check = bic_check,
	.net_id = &bic_net_id,
};

static const struct kernel_param_ops bic_value_ops = {
	.set = cc_module_param_set,
	.get = cc_module_param_get,
};

static const struct kernel_param_ops bic_preset_ops = {
	.set = cc_module_preset_set,
	.get = cc_module_preset_get,
};

#define BIC_MODULE_PARAM(name, index) \
	module_param_cb(name, &bic_value_ops, (void *)&bic_params[index], 0444)

BIC_MODULE_PARAM(smax, BIC_SMAX);
MODULE_PARM_DESC(smax, "largest increase per round-trip [1/1000 packet]");
BIC_MODULE_PARAM(smin, BIC_SMIN);
MODULE_PARM_DESC(smin, "smallest increase per round-trip [1/1000 packet]");
BIC_MODULE_PARAM(beta, BIC_BETA);
MODULE_PARM_DESC(beta, "window after a loss, relative to before [1/1024]");
BIC_MODULE_PARAM(low_window, BIC_LOW);
MODULE_PARM_DESC(low_window, "use Reno below this window [packets]");
BIC_MODULE_PARAM(fast_convergence, BIC_FAST);
MODULE_PARM_DESC(fast_convergence,
		 "reduce Wmax further while other flows grow, 0 or 1");
BIC_MODULE_PARAM(form, BIC_FORM);
MODULE_PARM_DESC(form, "variant of the algorithm: paper or linux");
BIC_MODULE_PARAM(initial_ssthresh, BIC_INITIAL_SSTHRESH);
MODULE_PARM_DESC(initial_ssthresh,
		 "initial slow start threshold [packets], 0: unlimited");
BIC_MODULE_PARAM(beta_ecn, BIC_BETA_ECN);
MODULE_PARM_DESC(beta_ecn,
		 "beta after an ECN mark [1/1024], beta to 1023; 0: beta");
module_param_cb(preset, &bic_preset_ops, (void *)&bic_family, 0444);
MODULE_PARM_DESC(preset, "set all parameters: paper (default) or linux");

static void bic_start(struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);
	struct bic_settings settings;

	cc_params_copy(sock_net(sk), &bic_family, &settings);
	ca->params = settings.params;
	bic_init(&ca->params, &ca->vars);
	if (settings.initial_ssthresh)
		tcp_sk(sk)->snd_ssthresh = settings.initial_ssthresh;
}

static u32 bic_ssthresh(struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));
	u32 ssthresh;

	if (ca->params.beta_ecn && cc_is_ecn_reduction(sk, ca->ece)) {
		ssthresh = bic_decrease_ecn(&ca->params, &ca->vars, cwnd);
		trace_bic_window(sk, &ca->params, &ca->vars, ssthresh, BIC_ECN);
	} else {
		ssthresh = bic_decrease(&ca->params, &ca->vars, cwnd);
		trace_bic_window(sk, &ca->params, &ca->vars, ssthresh,
				 BIC_LOSS);
	}
	return ssthresh;
}

static void bic_in_ack_event(struct sock *sk, u32 flags)
{
	struct bic *ca = inet_csk_ca(sk);

	ca->ece = flags & CA_ACK_ECE;
}

static u32 bic_phase(const struct sock *sk)
{
	const struct bic *ca = inet_csk_ca(sk);

	return tcp_in_slow_start(tcp_sk(sk)) ? BIC_SLOW_START : ca->vars.phase;
}

static void bic_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct bic *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = tcp_snd_cwnd(tp);

	if (!tcp_is_cwnd_limited(sk))
		return;

	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked) {
		struct bic_ack now = {
			.cwnd = tcp_snd_cwnd(tp),
			.clamp = tp->snd_cwnd_clamp,
			.acked = acked,
			.now = tcp_jiffies32,
			.recheck = HZ / 32,
		};

		tcp_snd_cwnd_set(tp, bic_increase(&ca->params, &ca->vars,
						  &tp->snd_cwnd_cnt, &now));
	}

	if (tcp_snd_cwnd(tp) != before)
		trace_bic_window(sk, &ca->params, &ca->vars, tp->snd_ssthresh,
				 bic_phase(sk));
}

static void bic_set_state(struct sock *sk, u8 new_state)
{
	struct bic *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		bic_timeout(&ca->params, &ca->vars);
}

static u32 bic_undo_cwnd(struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);

	bic_undo(&ca->params, &ca->vars);
	return tcp_reno_undo_cwnd(sk);
}

static void bic_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct bic *ca = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Open)
		bic_count_ack(&ca->params, &ca->vars, sample->pkts_acked);
}

static struct tcp_congestion_ops bic_ops __read_mostly = {
	.init = bic_start,
	.ssthresh = bic_ssthresh,
	.cong_avoid = bic_cong_avoid,
	.set_state = bic_set_state,
	.undo_cwnd = bic_undo_cwnd,
	.pkts_acked = bic_pkts_acked,
	.in_ack_event = bic_in_ack_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.owner = THIS_MODULE,
	.name = "bic",
};

static int __net_init bic_net_init(struct net *net)
{
	return cc_net_init(net, &bic_family);
}

static void __net_exit bic_net_exit(struct net *net)
{
	cc_net_exit(net, &bic_family);
}

static struct pernet_operations bic_net_ops = {
	.init = bic_net_init,
	.exit = bic_net_exit,
	.id = &bic_net_id,
	.size = sizeof(struct cc_net),
};

static int __init bic_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct bic) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(sizeof(struct bic_settings) > CC_PARAMS_MAX);

	err = cc_params_init(&bic_family);
	if (err) {
		pr_err("invalid parameters: load with smin <= smax, and beta_ecn 0 or beta to 1023\n");
		return err;
	}

	err = register_pernet_subsys(&bic_net_ops);
	if (err)
		return err;

	err = tcp_register_congestion_control(&bic_ops);
	if (err == -EEXIST)
		pr_err("a \"bic\" is already registered: unload it, or use a kernel without CONFIG_TCP_CONG_BIC=y\n");
	if (err) {
		unregister_pernet_subsys(&bic_net_ops);
		return err;
	}
	if (!strcmp(bic_preset_name(&bic_initial), "paper"))
		pr_info("\"bic\" has the constants of the BIC paper; for mainline's, \"options tcp_bic preset=linux\" in /etc/modprobe.d\n");
	return 0;
}

static void __exit bic_unregister(void)
{
	tcp_unregister_congestion_control(&bic_ops);
	unregister_pernet_subsys(&bic_net_ops);
}

module_init(bic_register);
module_exit(bic_unregister);

MODULE_LICENSE("GPL");
MODULE_AUTHOR(FAIRPATH_AUTHOR);
MODULE_VERSION(FAIRPATH_VERSION);
MODULE_DESCRIPTION("BIC (Xu, Harfoush, Rhee 2004); as mainline: preset=linux");
