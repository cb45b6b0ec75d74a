// SPDX-License-Identifier: GPL-2.0
/*
 * Drop control packets of local programs without privilege.
 *
 * The port of control packets is not a privileged one, so that any user of a
 * router could join sessions where the domain has no key. Control packets are
 * sent by sockets that a process with CAP_NET_ADMIN over their namespace has
 * opened, as slbnd does; a process that inherits the socket needs no capability.
 *
 * A hook for what this router sends sees all that IP sends, whatever device it
 * leaves by, also to the router itself. Packet sockets bypass it; links see what
 * they send (slbn_packet.c). Packets that this router forwards have no socket,
 * nor do answers of links.
 */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <net/sock.h>

#include "slbn.h"

/**
 * slbn_may_send() - may the sender of a packet send control packets?
 * @skb: control packet
 *
 * UDP and packet sockets are full sockets. One that is closed already, and those
 * of the kernel, which sends answers without, have no credentials.
 *
 * Context: bottom halves are disabled.
 * Return: true if no socket of this machine sent it, or one of a process with
 * CAP_NET_ADMIN over the socket's namespace.
 */
bool slbn_may_send(const struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	bool may = false;

	if (!sk)
		return true;
	if (!sk_fullsock(sk))
		return false;
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_socket && sk->sk_socket->file)
		may = file_ns_capable(sk->sk_socket->file,
				      sock_net(sk)->user_ns, CAP_NET_ADMIN);
	read_unlock_bh(&sk->sk_callback_lock);
	return may;
}

static noinline_for_stack unsigned int
slbn_local_out_slow(struct sk_buff *skb, const struct nf_hook_state *state)
{
	unsigned int verdict = NF_ACCEPT;
	struct slbn_skb_pos place;

	/* Answers of links have no socket. */
	if (!skb->sk)
		return NF_ACCEPT;
	/* As in slbn_local_in(). */
	local_bh_disable();
	if (slbn_find(skb, &place) && !slbn_may_send(skb)) {
		slbn_links_count_user(state->net, skb, state->out->ifindex);
		verdict = NF_DROP;
	}
	local_bh_enable();
	return verdict;
}

/**
 * slbn_local_out() - drop control packets of local programs without privilege
 * @priv: not used
 * @skb: packet that this router sends, data at the network header
 * @state: of the hook
 *
 * Return: NF_ACCEPT or NF_DROP.
 */
unsigned int slbn_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state)
{
	if (likely(slbn_is_data(skb, true)))
		return NF_ACCEPT;
	return slbn_local_out_slow(skb, state);
}
