# SPDX-License-Identifier: GPL-2.0
#
# Compiler flags of the modules, and backports of missing kernel interfaces.
#
# include/compat holds shadow headers: each includes the kernel's header of the
# same name (#include_next) and adds what older kernels lack, so that the
# modules read like mainline's. Stable kernels backport helpers, so features are
# detected by searching the headers, not by kernel version.
#
# The including Kbuild sets fairpath to the top of the tree.

fp-has = $(shell grep -qsE '$(2)' '$(srctree)/include/$(1)' && echo 1)

# NOSTDINC_FLAGS precede the kernel's -I, so that shadow headers come first.
NOSTDINC_FLAGS += -I$(fairpath)/include/compat
ccflags-y += -include $(fairpath)/include/compat/oldest.h
ccflags-y += -I$(fairpath)/include

# The same module wherever it is built: records of runs have its hash.
ccflags-y += -ffile-prefix-map=$(abspath $(fairpath))=.

# What modinfo shows.
ccflags-y += -DFAIRPATH_AUTHOR=\"fairpath\"
ccflags-y += -DFAIRPATH_VERSION=\"$(shell cat '$(fairpath)/VERSION')\"

# Since 6.6: sysctl tables are registered with their size.
ifneq ($(call fp-has,net/net_namespace.h,register_net_sysctl_sz),)
ccflags-y += -DFP_HAVE_REGISTER_NET_SYSCTL_SZ
endif

# Since 6.11: sysctl handlers take a const table.
ifneq ($(call fp-has,linux/sysctl.h,proc_handler.const struct ctl_table),)
ccflags-y += -DFP_HAVE_CONST_CTL_TABLE
endif

# Since 6.6: requests and dumps have the same information.
ifneq ($(call fp-has,net/genetlink.h,genl_info_dump),)
ccflags-y += -DFP_HAVE_GENL_INFO_DUMP
endif

# Since 6.5: GSO has a separate header.
ifneq ($(call fp-has,net/gso.h,skb_gso_segment),)
ccflags-y += -DFP_HAVE_NET_GSO_H
endif

# In 7.2, and in stable kernels before it.
ifneq ($(call fp-has,net/pkt_cls.h,tcf_classify_qdisc),)
ccflags-y += -DFP_HAVE_TCF_CLASSIFY_QDISC
endif

# In 7.2: per-device locks.
ifneq ($(call fp-has,linux/ethtool.h,netif_get_link_ksettings),)
ccflags-y += -DFP_HAVE_NETIF_GET_LINK_KSETTINGS
endif

# In 7.2: lockless access to the length of a queue.
ifneq ($(call fp-has,net/sch_generic.h,qdisc_qlen_inc),)
ccflags-y += -DFP_HAVE_QDISC_QLEN_INC
endif

# In 7.2: the number of segments is stored in qdisc_skb_cb.
ifneq ($(call fp-has,net/sch_generic.h,u16[[:space:]]*pkt_segs),)
ccflags-y += -DFP_HAVE_QDISC_PKT_SEGS
endif

# In 7.2: qdiscs have reasons of their own for a drop.
ifneq ($(call fp-has,net/dropreason-qdisc.h,FN.OVERLIMIT),)
ccflags-y += -DFP_HAVE_QDISC_DROP_REASONS
endif

# In 7.2: dev_deactivate() can keep the packets that are queued.
ifneq ($(call fp-has,net/sch_generic.h,dev_deactivate.*bool reset_needed),)
ccflags-y += -DFP_HAVE_DEV_DEACTIVATE_RESET
endif

# Before 5.19 nothing compiles: stop at the error of oldest.h.
ifeq ($(call fp-has,net/tcp.h,tcp_snd_cwnd_set),)
ccflags-y += -Wfatal-errors
endif
