# SPDX-License-Identifier: GPL-2.0
#
# The entry points; `make help` lists them. userspace/build.mk has the rules for
# userspace.
#
# Modules are built in build/modules/RELEASE, a copy of the sources for each
# kernel, so that several kernels can be built for side by side and the tree
# stays clean.

VERSION := $(shell cat VERSION)

KERNELDIR ?= /lib/modules/$(shell uname -r)/build
DEPMOD ?= depmod
DESTDIR ?=
PREFIX ?= /usr/local

ALL_MODULES := tcp_bic tcp_gaimd sch_drr_fq sch_slbn
# Which modules to build and install: MODULES='tcp_gaimd sch_slbn'.
MODULES ?= $(ALL_MODULES)
UNKNOWN_MODULES := $(filter-out $(ALL_MODULES),$(MODULES))
$(if $(UNKNOWN_MODULES),$(error MODULES: no module '$(UNKNOWN_MODULES)'; \
	there are: $(ALL_MODULES)))

# Expanded only where a kernel is needed, so that `make help` needs none.
KERNELRELEASE ?= $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
	'$(KERNELDIR)/include/generated/utsrelease.h' 2>/dev/null)
BUILD = build/modules/$(KERNELRELEASE)
MODULES_DIR = $(DESTDIR)/lib/modules/$(KERNELRELEASE)/updates/fairpath
SOURCES := Kbuild VERSION $(wildcard $(ALL_MODULES:%=%/Kbuild) $(ALL_MODULES:%=%/*.[ch])) \
	$(shell find include -type f)

# Where tc looks for plugins is compiled into it; expanded only where needed.
TC = $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v tc)
TC_LIB_DIR = $(if $(TC),$(shell grep -aoE '/[[:alnum:]_./+-]*lib[[:alnum:]_./+-]*/tc/' $(TC) | head -n 1))

# Not every user has depmod and dkms on the path.
export PATH := $(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

include userspace/build.mk

.PHONY: help
help:
	@echo 'Try it, without touching the running kernel:'
	@echo '  make demo                flows on a backbone with SLBN and without, in a VM'
	@echo 'Modules [MODULES="$(ALL_MODULES)", KERNELDIR=, DESTDIR=]:'
	@echo '  make modules             build the modules'
	@echo '  make modules-install     install them, and the tc plugins of the qdiscs'
	@echo '  make modules-uninstall   remove these'
	@echo '  make dkms-install        let DKMS build the modules for each new kernel'
	@echo '  make dkms-uninstall      remove these'
	@echo 'Userspace [PREFIX=$(PREFIX), DESTDIR=, TC_LIB_DIR=]:'
	@echo '  make tc-plugins          build what tc needs to understand the qdiscs'
	@echo '  make tools               build slbnctl, slbnd and libslbn'
	@echo '  make slbnsim             build the simulator'
	@echo '  make traffic             build the traffic generators of the lab'
	@echo '  make tools-install       install all userspace programs and manual pages'
	@echo '  make tools-uninstall     remove these'
	@echo '  make install             modules-install and tools-install'
	@echo '  make uninstall           modules-uninstall and tools-uninstall'
	@echo 'Tests:'
	@echo '  make check               units, CLIs, pure lab, fuzz corpora, style: 3 minutes'
	@echo '  make hooks               let git check messages of commits, as make check does'
	@echo '  make test                check, modules on native, 6.1 and 6.12: 15 minutes'
	@echo '  make test-all            everything, on 6.1, 6.12 and 7.2: hours [SEEDS=1,2,3]'
	@echo '  make test-debug          kernel tests under KASAN, lockdep, UBSAN, KCSAN, PREEMPT_RT'
	@echo '  make fuzz                fuzz the parsers, and keep new inputs [FUZZ_SECONDS=$(FUZZ_SECONDS)]'
	@echo '  make bench               measure the cost of qdiscs, agent, lab and simulator'
	@echo 'Published figures [FIGURES=, SEEDS=, SEED=, KERNEL=, JOBS=, OUT=]:'
	@echo '  make figures             run and draw all of them: hours'
	@echo '  make figures-quick       the same with few and short runs: minutes'
	@echo '  make published-figures   draw them from the numbers in docs/figures: a minute'
	@echo '  make publish-figures     put the results of make figures into docs/figures'
	@echo '  make restamp-figures     mark docs/figures as current, after pure renames only'
	@echo '  make report              one page with all figures'
	@echo 'Other:'
	@echo '  make deps                install all packages (scripts/packages)'
	@echo '  make dist                pack a release: build/dist/fairpath-$(VERSION).tar.xz'
	@echo '  make clean               remove build/'

# Modules

.PHONY: check-kernel
check-kernel:
	@test -n '$(KERNELRELEASE)' || { \
		echo 'No kernel headers in $(KERNELDIR): install linux-headers for your kernel, or set KERNELDIR.' >&2; \
		exit 2; }

.PHONY: modules
modules: check-kernel
	@mkdir -p $(BUILD)
	@cp --parents --update --preserve=mode,timestamps $(SOURCES) $(BUILD)
	$(MAKE) -C $(KERNELDIR) M=$(abspath $(BUILD)) FAIRPATH_MODULES='$(MODULES)' modules

# tc needs a plugin for each qdisc that is installed.
PLUGINS = $(patsubst sch_%,build/tc/q_%.so,$(filter sch_%,$(MODULES)))

.PHONY: modules-install
modules-install: modules $(if $(PLUGINS),check-tc $(PLUGINS))
	install -d $(MODULES_DIR)
	install -m 644 $(foreach name,$(MODULES),$(BUILD)/$(name)/$(name).ko) $(MODULES_DIR)
	$(if $(PLUGINS),install -d $(DESTDIR)$(TC_LIB_DIR))
	$(if $(PLUGINS),install -m 644 $(PLUGINS) $(DESTDIR)$(TC_LIB_DIR))
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(KERNELRELEASE)
	$(if $(filter tcp_bic,$(MODULES)),@scripts/check-bic-module \
		$(if $(DESTDIR),--root $(DESTDIR)) $(KERNELRELEASE))

.PHONY: modules-uninstall
modules-uninstall: check-kernel
	rm -f $(MODULES:%=$(MODULES_DIR)/%.ko)
	$(if $(TC_LIB_DIR),rm -f $(PLUGINS:build/tc/%=$(DESTDIR)$(TC_LIB_DIR)/%))
	if test -d $(MODULES_DIR); then rmdir --ignore-fail-on-non-empty $(MODULES_DIR); fi
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(KERNELRELEASE)

DKMS_TREE = $(DESTDIR)/usr/src/fairpath-$(VERSION)

.PHONY: dkms-tree
dkms-tree:
	rm -rf $(DKMS_TREE)
	install -d $(DKMS_TREE)/scripts
	cp --parents --preserve=timestamps Makefile LICENSE userspace/build.mk $(SOURCES) $(DKMS_TREE)
	sed 's/@VERSION@/$(VERSION)/' scripts/dkms.conf.in > $(DKMS_TREE)/dkms.conf

# With DESTDIR, only the tree: DKMS itself knows no other root.
.PHONY: dkms-install
dkms-install: check-kernel dkms-uninstall dkms-tree
ifeq ($(DESTDIR),)
	dkms install fairpath/$(VERSION) -k $(KERNELRELEASE) --kernelsourcedir $(KERNELDIR)
	@scripts/check-bic-module $(KERNELRELEASE)
endif

.PHONY: dkms-uninstall
dkms-uninstall:
ifeq ($(DESTDIR),)
	@command -v dkms >/dev/null || { echo 'dkms is not installed: apt install dkms' >&2; exit 2; }
	if dkms status fairpath/$(VERSION) | grep -q .; then dkms remove fairpath/$(VERSION) --all; fi
endif
	rm -rf $(DKMS_TREE)

# Userspace

.PHONY: check-tc
check-tc:
	@test -n '$(TC_LIB_DIR)' || { \
		echo "Cannot determine tc's plugin directory: install iproute2, or set TC_LIB_DIR." >&2; \
		exit 2; }

BIN_DIR = $(DESTDIR)$(PREFIX)/bin
SBIN_DIR = $(DESTDIR)$(PREFIX)/sbin
LIB_DIR = $(DESTDIR)$(PREFIX)/lib/$(MULTIARCH)
INCLUDE_DIR = $(DESTDIR)$(PREFIX)/include
UNIT_DIR = $(DESTDIR)$(PREFIX)/lib/systemd/system
SYSCTL_DIR = $(DESTDIR)$(PREFIX)/lib/sysctl.d
# Of the system to install on. Type=notify-reload is new in 253.
SYSTEMD_VERSION ?= $(or $(shell systemctl --version 2>/dev/null | sed -n '1s/^systemd \([0-9]*\).*/\1/p'),0)
UNIT_EDITS = s,@SBINDIR@,$(PREFIX)/sbin,; $(shell test $(SYSTEMD_VERSION) -lt 253 || \
	echo 's,^Type=notify$$,&-reload,; /^ExecReload=/d; /^.*notify-reload without/d')
# Debian's Python looks here for packages that are not its own.
PYTHON_DIR = $(DESTDIR)$(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(PYTHON_VERSION))/dist-packages
PYTHON_VERSION = $(shell /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
MAN_DIR = $(DESTDIR)$(PREFIX)/share/man
DOC_DIR = $(DESTDIR)$(PREFIX)/share/doc/fairpath
COMPLETION_DIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
DOCUMENTS := docs/grafana/fairpath.json docs/schema/slbnctl.json userspace/slbnd/slbnd.conf
# fairlab and its manual stay in the tree.
MANUAL := $(filter-out docs/man/fairlab.1,$(wildcard docs/man/*.[138]))
# docs/man/NAME.8 is to be in man8/NAME.8.
MANUAL_INSTALLED = $(foreach page,$(MANUAL),$(MAN_DIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))

.PHONY: tools-install
tools-install: check-tc tc-plugins tools slbnsim
	install -d $(DESTDIR)$(TC_LIB_DIR) $(BIN_DIR) $(SBIN_DIR) $(LIB_DIR)/pkgconfig \
		$(INCLUDE_DIR) $(UNIT_DIR) $(SYSCTL_DIR) $(PYTHON_DIR) $(sort $(dir $(MANUAL_INSTALLED)))
	install -m 644 $(TC_PLUGINS) $(DESTDIR)$(TC_LIB_DIR)
	install -m 755 $(SLBNCTL) $(SLBND) $(SBIN_DIR)
	install -m 755 $(SLBNSIM) $(BIN_DIR)
	sed '/^VERSION = /s,".*","$(VERSION)",' userspace/slbnsim/graphml.py > $(BIN_DIR)/slbnsim-graphml
	chmod 755 $(BIN_DIR)/slbnsim-graphml
	sed '$(UNIT_EDITS)' userspace/slbnd/slbnd.service.in > $(UNIT_DIR)/slbnd.service
	install -m 644 userspace/slbnd/slbnd.sysctl $(SYSCTL_DIR)/50-slbnd.conf
	sed 's,@SBINDIR@,$(PREFIX)/sbin,' userspace/slbnctl/fairpath-metrics.service.in \
		> $(UNIT_DIR)/fairpath-metrics.service
	install -m 644 userspace/slbnctl/fairpath-metrics.timer \
		userspace/slbnctl/fairpath-links.service $(UNIT_DIR)
	install -m 644 -D -t $(DOC_DIR) $(DOCUMENTS)
	install -m 644 -D userspace/slbnctl/completion.bash $(COMPLETION_DIR)/slbnctl
	ln -sf slbnctl $(COMPLETION_DIR)/slbnd
	install -m 644 $(LIBSLBN) $(LIB_DIR)
	ln -sf libslbn.so.0 $(LIB_DIR)/libslbn.so
	install -m 644 userspace/libslbn/libslbn.h $(INCLUDE_DIR)
	sed 's,@VERSION@,$(VERSION),; s,@LIBDIR@,$(LIB_DIR:$(DESTDIR)%=%),; s,@INCLUDEDIR@,$(PREFIX)/include,' \
		userspace/libslbn/libslbn.pc.in > $(LIB_DIR)/pkgconfig/libslbn.pc
	install -m 644 userspace/libslbn/libslbn.py $(PYTHON_DIR)
	$(foreach page,$(MANUAL_INSTALLED),install -m 644 docs/man/$(notdir $(page)) $(page) &&) :
	$(if $(DESTDIR),,ldconfig)

.PHONY: tools-uninstall
tools-uninstall:
	rm -f $(if $(TC_LIB_DIR),$(TC_PLUGINS:build/tc/%=$(DESTDIR)$(TC_LIB_DIR)/%))
	rm -f $(SBIN_DIR)/slbnctl $(SBIN_DIR)/slbnd $(BIN_DIR)/slbnsim $(BIN_DIR)/slbnsim-graphml
	rm -f $(LIB_DIR)/libslbn.so $(LIB_DIR)/libslbn.so.0 $(LIB_DIR)/pkgconfig/libslbn.pc
	rm -f $(INCLUDE_DIR)/libslbn.h $(PYTHON_DIR)/libslbn.py $(UNIT_DIR)/slbnd.service \
		$(SYSCTL_DIR)/50-slbnd.conf $(addprefix $(UNIT_DIR)/fairpath-,metrics.service metrics.timer links.service) \
		$(addprefix $(DOC_DIR)/,$(notdir $(DOCUMENTS))) \
		$(COMPLETION_DIR)/slbnctl $(COMPLETION_DIR)/slbnd
	rm -f $(MANUAL_INSTALLED)
	$(if $(DESTDIR),,ldconfig)

.PHONY: install uninstall
install: modules-install tools-install
uninstall: modules-uninstall tools-uninstall

# Installed packages; the other targets only check for theirs.

.PHONY: deps
deps:
	@scripts/install-deps

# What is missing is listed, with the command that installs it.
checked = @scripts/install-deps --check $(1) || { \
	echo 'Install these: scripts/install-deps $(1), or make deps for all' >&2; exit 2; }

# The lab

.PHONY: demo
# The runs take a CPU each, one in virtual time, one on a stock kernel, which is slower.
DEMO_RATE = 100mbit
DEMO_STOCK_RATE = 5mbit
demo:
	@scripts/install-deps modules tc tools vm lab
	@$(MAKE) --no-print-directory tools traffic tc-plugins
	@scripts/kernel get --engine native 6.1 >/dev/null
	@scripts/fairlab backbone --quiet --variants slbn --rate $(DEMO_STOCK_RATE) --out results/stock >build/demo.txt 2>&1 & stock=$$!; \
		scripts/fairlab backbone --engine virtual --rate $(DEMO_RATE); status=$$?; \
		wait $$stock || status=$$?; printf '\nThe same modules on a stock kernel:\n\n'; cat build/demo.txt; exit $$status

FIGURES ?= *
KERNEL ?= 6.1
JOBS ?= $(shell nproc)
OUT ?= $(if $(filter figures-quick,$(MAKECMDGOALS)),results/figures-quick,results/figures)
# Guests are not to need more memory than there is.
MEMORY = $(shell awk '/^MemTotal/ { print int($$2 / 1024) }' /proc/meminfo)
# A run's file is complete or absent, so neither locks nor marks of unfinished runs are needed.
SNAKEMAKE = PYTHONDONTWRITEBYTECODE=1 snakemake --snakefile userspace/lab/Snakefile --cores '$(JOBS)' \
	--resources mem_mb=$(MEMORY) --rerun-triggers mtime --rerun-incomplete --nolock --keep-going
QUICK = $(if $(filter figures-quick,$@),--quick)
DRAWN = --kernel '$(KERNEL)' --out '$(OUT)' $(if $(SEEDS),--seeds '$(SEEDS)') $(if $(SEED),--seed '$(SEED)')
REPORT = scripts/fairlab report $(DRAWN)
DRAW = scripts/fairlab figure --draw $(DRAWN) '*'

# If some runs fail, the report shows the others.
.PHONY: figures figures-quick
figures figures-quick:
	@scripts/install-deps modules tc tools slbnsim vm lab figures
	@$(SNAKEMAKE) --config 'quick=$(if $(QUICK),true,false)' 'kernel=$(KERNEL)' 'figures=$(FIGURES)' 'out=$(OUT)' \
		'seeds=$(or $(SEEDS),0)' 'seed=$(or $(SEED),0)' || { $(REPORT) $(QUICK); exit 1; }

.PHONY: report
report:
	@$(REPORT)

# The numbers of all runs, and the report on them, as they are in docs/figures.
PUBLISHED := docs/figures
FIGURES_DATA := $(PUBLISHED)/data.tar.xz

.PHONY: publish-figures
publish-figures:
	@$(DRAW) >/dev/null || test $$? = 4
	@$(REPORT)
	install -d $(PUBLISHED)
	install -m 644 $(OUT)/report.md $(PUBLISHED)
	tar -C $(OUT) --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		--exclude='.*' -cf - data | xz -9e > $(FIGURES_DATA)

# Only after changes of sources that cannot change a number (a renamed file, a comment): the
# published runs get the fingerprints of today's sources, and report.md is written again.
.PHONY: restamp-figures
restamp-figures:
	@set -e; out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; tar -C "$$out" -xJf $(FIGURES_DATA); \
	scripts/fairlab figure --restamp --out "$$out" '*'; \
	$(MAKE) --silent --no-print-directory publish-figures OUT="$$out"

# Files that exist are kept.
.PHONY: published-figures
published-figures:
	install -d $(OUT)
	tar -C $(OUT) --skip-old-files -xJf $(FIGURES_DATA)
	@$(DRAW) || test $$? = 4
	@$(REPORT)

# Tests

.PHONY: check
check:
	$(call checked,modules tc tools slbnsim lab fuzz tests)
	@test ! -e .git || scripts/hooks/commit-msg
	@tests/run check

# git then refuses commits whose message `make check` would refuse.
.PHONY: hooks
hooks:
	git config core.hooksPath scripts/hooks

.PHONY: test
test:
	@scripts/install-deps modules tc tools slbnsim vm lab figures bench fuzz tests
	@tests/run test

.PHONY: test-all
test-all:
	$(call checked,)
	@tests/run all

.PHONY: test-debug
test-debug:
	$(call checked,modules tc tools vm tests)
	@tests/run debug

FUZZ_SECONDS ?= 600

.PHONY: fuzz
fuzz:
	$(call checked,tools slbnsim fuzz)
	@/usr/bin/python3 -m tests.fuzz.fuzzers --seconds $(FUZZ_SECONDS)

.PHONY: bench
bench:
	$(call checked,modules tc tools slbnsim vm lab bench)
	@tests/bench/bench

.PHONY: dist
dist:
	@scripts/dist build/dist

.PHONY: clean
clean:
	rm -rf build
