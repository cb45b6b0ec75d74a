# SPDX-License-Identifier: GPL-2.0
#
# How the modules are compiled, and what the kernel's headers lack.
#
# include/compat holds shadow headers: each includes the kernel's header of the
# same name (#include_next) and adds what older kernels have not got, so that
# the modules read like mainline's. Stable kernels take over helpers from newer
# ones, so what a header offers is found by looking into it, not by its version.
#
# The includer sets fairpath to the top of the tree.

fp-has = $(shell grep -qsE '$(2)' '$(srctree)/include/$(1)' && echo 1)

# NOSTDINC_FLAGS come before the kernel's own -I, as shadow headers must.
NOSTDINC_FLAGS += -I$(fairpath)/include/compat
ccflags-y += -include $(fairpath)/include/compat/oldest.h
ccflags-y += -I$(fairpath)/include

# 6.6: the length of a table is told when it is registered.
ifneq ($(call fp-has,net/net_namespace.h,register_net_sysctl_sz),)
ccflags-y += -DFP_HAVE_REGISTER_NET_SYSCTL_SZ
endif

# 6.11: handlers may not change the table that they serve.
ifneq ($(call fp-has,linux/sysctl.h,proc_handler.const struct ctl_table),)
ccflags-y += -DFP_HAVE_CONST_CTL_TABLE
endif

# 6.5: segmentation has a header of its own.
ifneq ($(call fp-has,net/gso.h,skb_gso_segment),)
ccflags-y += -DFP_HAVE_NET_GSO_H
endif

# By 7.2, and in stable kernels before it.
ifneq ($(call fp-has,net/pkt_cls.h,tcf_classify_qdisc),)
ccflags-y += -DFP_HAVE_TCF_CLASSIFY_QDISC
endif

# By 7.2: devices have locks of their own.
ifneq ($(call fp-has,linux/ethtool.h,netif_get_link_ksettings),)
ccflags-y += -DFP_HAVE_NETIF_GET_LINK_KSETTINGS
endif

# By 7.2: the length of a queue is read without its lock.
ifneq ($(call fp-has,net/sch_generic.h,qdisc_qlen_inc),)
ccflags-y += -DFP_HAVE_QDISC_QLEN_INC
endif

# By 7.2: how many segments a packet has is noted when it is queued.
ifneq ($(call fp-has,net/sch_generic.h,u16[[:space:]]*pkt_segs),)
ccflags-y += -DFP_HAVE_QDISC_PKT_SEGS
endif

# Before 5.19 nothing fits: the one error of oldest.h shall be all that is said.
ifeq ($(call fp-has,net/tcp.h,tcp_snd_cwnd_set),)
ccflags-y += -Wfatal-errors
endif
