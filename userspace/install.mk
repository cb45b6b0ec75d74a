# SPDX-License-Identifier: GPL-2.0
#
# Installs userspace. Included by the top-level Makefile.
#
# Five parts, each alone: install-tc, install-lib, install-agent, install-sim and
# install-lab. The directories are the GNU coding standards' variables, and some
# more in their way; each can be set. DESTDIR precedes them all, and is not part
# of what installed files say.

prefix ?= $(PREFIX)
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
sbindir ?= $(exec_prefix)/sbin
# Debian's; elsewhere set lib64.
libdir ?= $(exec_prefix)/lib$(MULTIARCH:%=/%)
includedir ?= $(prefix)/include
datarootdir ?= $(prefix)/share
datadir ?= $(datarootdir)
mandir ?= $(datarootdir)/man
docdir ?= $(datarootdir)/doc/fairpath
# slbnd reads $(sysconfdir)/fairpath/slbnd.conf in any case; nothing is put there.
sysconfdir ?= /etc
pkgconfigdir ?= $(libdir)/pkgconfig
unitdir ?= $(prefix)/lib/systemd/system
sysctldir ?= $(prefix)/lib/sysctl.d
completiondir ?= $(datadir)/bash-completion/completions
PYTHON ?= /usr/bin/python3
# Where that Python looks for packages: Debian's has a directory for its own ones,
# and another one for others'. Determined once, when needed.
PYTHON_DIR = $(shell $(PYTHON) -c 'import sys, sysconfig; prefix = sys.argv[1]; \
	debian = "deb_system" in sysconfig.get_scheme_names(); \
	version = "python3" if debian and prefix == "/usr" else "python%d.%d" % sys.version_info[:2]; \
	print(prefix, "lib", version, ("dist" if debian else "site") + "-packages", sep="/")' '$(prefix)')
pythondir ?= $(eval pythondir := $(PYTHON_DIR))$(pythondir)

.PHONY: check-tc
check-tc:
	@test -n '$(TC_LIB_DIR)' || { \
		echo "Cannot determine tc's plugin directory: install iproute2, or set TC_LIB_DIR." >&2; \
		exit 2; }

# Of the system to install on. Type=notify-reload is new in 253.
SYSTEMD_VERSION ?= $(or $(shell systemctl --version 2>/dev/null | sed -n '1s/^systemd \([0-9]*\).*/\1/p'),0)
INSTALL_EDITS = s,@VERSION@,$(VERSION),; s,@SBINDIR@,$(sbindir),; s,@LIBDIR@,$(libdir),; \
	s,@INCLUDEDIR@,$(includedir),; $(shell test $(SYSTEMD_VERSION) -lt 253 || \
	echo 's,^Type=notify$$,&-reload,; /^ExecReload=.*MAINPID/d; /^.*notify-reload without/d')

# What a part installs: SOURCE:MODE:DESTINATION, or TARGET:link:DESTINATION. Of
# files to be edited, the source ends with .in or .py.
page = docs/man/$(1):644:$(mandir)/man$(subst .,,$(suffix $(1)))/$(1)

# tc needs a plugin for each qdisc that is installed.
PLUGINS = $(patsubst sch_%,build/tc/q_%.so,$(filter sch_%,$(MODULES)))
TC_PAGES = $(patsubst sch_%,tc-%.8,$(filter sch_%,$(MODULES))) $(patsubst %,%.4,$(filter tcp_%,$(MODULES)))
TC_FILES = $(if $(TC_LIB_DIR),$(foreach plugin,$(PLUGINS),$(plugin):644:$(TC_LIB_DIR)/$(notdir $(plugin)))) \
	$(foreach name,$(TC_PAGES),$(call page,$(name)))

CONTRACTS := slbn.h slbn_netlink.h drr_fq.h
LIB_FILES = $(LIBSLBN):644:$(libdir)/libslbn.so.0 libslbn.so.0:link:$(libdir)/libslbn.so \
	userspace/libslbn/libslbn.h:644:$(includedir)/libslbn.h \
	$(foreach name,$(CONTRACTS),include/uapi/fairpath/$(name):644:$(includedir)/fairpath/$(name)) \
	userspace/libslbn/libslbn.pc.in:644:$(pkgconfigdir)/libslbn.pc \
	userspace/libslbn/libslbn.py:644:$(pythondir)/libslbn.py $(call page,libslbn.3)

DOCUMENTS := docs/grafana/fairpath.json docs/prometheus/fairpath.rules.yml docs/schema/slbnctl.json \
	docs/netlink/slbn.yaml userspace/slbnd/service/slbnd.conf scripts/slbn.lua \
	$(patsubst %,docs/%.md,operating deploying security windows fair-queueing)
AGENT_FILES = $(SLBNCTL):755:$(sbindir)/slbnctl $(SLBND):755:$(sbindir)/slbnd \
	userspace/slbnd/service/slbnd.service.in:644:$(unitdir)/slbnd.service \
	userspace/slbnd/service/slbnd.sysctl:644:$(sysctldir)/50-slbnd.conf \
	userspace/slbnctl/fairpath-metrics.service.in:644:$(unitdir)/fairpath-metrics.service \
	userspace/slbnctl/fairpath-metrics.timer:644:$(unitdir)/fairpath-metrics.timer \
	userspace/slbnctl/fairpath-links.service:644:$(unitdir)/fairpath-links.service \
	userspace/slbnctl/fairpath-link@.service:644:$(unitdir)/fairpath-link@.service \
	$(foreach name,$(DOCUMENTS),$(name):644:$(docdir)/$(notdir $(name))) \
	$(foreach name,$(wildcard docs/ansible/*.yml),$(name):644:$(docdir)/ansible/$(notdir $(name))) \
	userspace/slbnctl/completion.bash:644:$(completiondir)/slbnctl slbnctl:link:$(completiondir)/slbnd \
	$(call page,slbnd.8) $(call page,slbnctl.8)

SIM_FILES = $(SLBNSIM):755:$(bindir)/slbnsim userspace/slbnsim/graphml.py:755:$(bindir)/slbnsim-graphml \
	$(call page,slbnsim.1) slbnsim.1:link:$(mandir)/man1/slbnsim-graphml.1

# The packages of Python with their data; their VERSION is a link to that of the tree.
package = $(foreach name,$(shell cd userspace/$(1) && find $(2) \( -type f -o -name VERSION \) ! -path '*/__pycache__/*'), \
	userspace/$(1)/$(name):$(if $(filter %/guest-init,$(name)),755,644):$(pythondir)/$(name))
LAB_FILES = $(call package,lab,fairlab) $(call package,vm,fairvm) \
	$(foreach program,$(TRAFFIC),$(program):755:$(bindir)/$(notdir $(program))) \
	build/bin/fairlab:755:$(bindir)/fairlab build/bin/fairvm:755:$(bindir)/fairvm \
	build/bin/fairvm-kernel:755:$(bindir)/fairvm-kernel \
	$(call page,fairlab.1) $(call page,fairvm.1) fairvm.1:link:$(mandir)/man1/fairvm-kernel.1 \
	$(call page,fairtraffic.1) fairtraffic.1:link:$(mandir)/man1/fairflow.1

# As pip makes them of pyproject.toml.
LAB_SCRIPTS := build/bin/fairlab build/bin/fairvm build/bin/fairvm-kernel
build/bin/fairlab: ENTRY = fairlab.cli.main
build/bin/fairvm: ENTRY = fairvm.cli
build/bin/fairvm-kernel: ENTRY = fairvm.kernel_cli
$(LAB_SCRIPTS): userspace/install.mk
	@mkdir -p $(@D)
	printf '#!%s\nimport sys\n\nfrom %s import main\n\nsys.exit(main())\n' $(PYTHON) $(ENTRY) > $@

define install-part
	@set -eu; for entry in $($(1)_FILES); do \
		source=$${entry%%:*}; rest=$${entry#*:}; mode=$${rest%%:*}; to="$(DESTDIR)$${rest#*:}"; \
		mkdir -p "$$(dirname "$$to")"; \
		case $$mode:$$source in \
		link:*) ln -sf "$$source" "$$to" ;; \
		*.in | *.py) sed '$(INSTALL_EDITS)' "$$source" >"$$to"; chmod $$mode "$$to" ;; \
		*) install -m $$mode "$$source" "$$to" ;; \
		esac; echo "  INSTALL $$to"; \
	done
endef
remove-part = rm -f $(foreach entry,$($(1)_FILES),'$(DESTDIR)$(lastword $(subst :, ,$(entry)))')
ldconfig = $(if $(DESTDIR),,$(if $(filter 0,$(shell id -u)),ldconfig))

.PHONY: install-tc install-lib install-agent install-sim install-lab
install-tc: $(if $(PLUGINS),check-tc $(PLUGINS))
	$(call install-part,TC)
install-lib: $(LIBSLBN)
	$(call install-part,LIB)
	$(ldconfig)
install-agent: $(SLBNCTL) $(SLBND)
	$(call install-part,AGENT)
install-sim: $(SLBNSIM)
	$(call install-part,SIM)
install-lab: $(TRAFFIC) $(LAB_SCRIPTS)
	$(call install-part,LAB)

.PHONY: tools-install tools-uninstall
tools-install: check-tc install-tc install-lib install-agent install-sim
tools-uninstall:
	$(foreach part,TC LIB AGENT SIM LAB,$(call remove-part,$(part)) &&) :
	$(ldconfig)
