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
# As in kbuild: where modules go, below which root, and in which directory of the
# kernel's. A package's root may be DESTDIR/usr, if /lib is a link to /usr/lib.
INSTALL_MOD_PATH ?= $(DESTDIR)
INSTALL_MOD_DIR ?= updates/fairpath
MODULES_DIR = $(INSTALL_MOD_PATH)/lib/modules/$(KERNELRELEASE)/$(INSTALL_MOD_DIR)
SOURCES := Kbuild VERSION $(wildcard $(ALL_MODULES:%=%/Kbuild) $(ALL_MODULES:%=%/*.[ch])) \
	$(shell find include -type f)

# Where tc looks for plugins is compiled into it; expanded only where needed.
TC = $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v tc)
TC_LIB_DIR = $(if $(TC),$(shell grep -aoE '/[[:alnum:]_./+-]*lib[[:alnum:]_./+-]*/tc/' $(TC) | head -n 1))

# Not every user has depmod and dkms on the path.
export PATH := $(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

include userspace/build.mk userspace/install.mk

# Such names are words of make's lists and of rm -rf: the parts of one with a space are others.
DIRECTORIES := DESTDIR KERNELDIR INSTALL_MOD_PATH INSTALL_MOD_DIR TC_LIB_DIR PREFIX prefix exec_prefix \
	bindir sbindir libdir includedir datarootdir datadir mandir docdir sysconfdir pkgconfigdir unitdir \
	sysctldir completiondir pythondir
GIVEN := $(foreach name,$(DIRECTORIES),$(if $(filter command environment,$(origin $(name))),$(name)))
$(foreach name,$(GIVEN),$(if $(word 2,x$($(name))x)$(findstring ',$($(name))),$(error $(name) '$($(name))': \
	must have no white space and no quotes; choose another directory)))

.PHONY: help
help:
	@echo 'Try it, without touching the running kernel:'
	@echo '  make demo                eight flows on a backbone, with SLBN and without'
	@echo 'Modules [MODULES="$(ALL_MODULES)", KERNELDIR=, DESTDIR=, INSTALL_MOD_*]:'
	@echo '  make modules             build the modules'
	@echo '  make modules-install     install them, the tc plugins of the qdiscs, manual pages'
	@echo '  make modules-uninstall   remove these'
	@echo '  make install-modules     install only modules, with modules_install of the kernel'
	@echo '  make dkms-install        let DKMS build the modules for each new kernel'
	@echo '  make dkms-uninstall      remove these'
	@echo '  make dkms-tree           only put their sources where DKMS finds them'
	@echo 'Userspace [PREFIX=$(PREFIX), DESTDIR=, TC_LIB_DIR=, prefix=, sbindir=, libdir= ...]:'
	@echo '  make tc-plugins          build what tc needs to understand the qdiscs'
	@echo '  make tools               build slbnctl, slbnd and libslbn [BPF=no: without clang, libbpf]'
	@echo '  make slbnsim             build the simulator'
	@echo '  make traffic             build the traffic generators of the lab'
	@echo '  make install-tc          install the tc plugins, and manual pages of the modules'
	@echo '  make install-lib         install libslbn, its headers and its Python binding'
	@echo '  make install-agent       install slbnd and slbnctl'
	@echo '  make install-sim         install the simulator'
	@echo '  make install-lab         install fairlab, fairvm and the traffic generators'
	@echo '  make tools-install       install all of these but the lab'
	@echo '  make tools-uninstall     remove all of these'
	@echo '  make install             modules-install and tools-install'
	@echo '  make uninstall           modules-uninstall and tools-uninstall'
	@echo 'Tests:'
	@echo '  make check               units, CLIs, pure lab, fuzz corpora, style: 4 minutes'
	@echo '  make hooks               let git check messages of commits, as make check does'
	@echo '  make test                check, kernel tests in virtual time, on 6.1 and 6.12: 15 minutes'
	@echo '  make test-all            everything, on 6.1, 6.12 and 7.2: hours [SEEDS=1,2,3]'
	@echo '  make test-packages       packages in clean roots of Debian, as root [RELEASES=]'
	@echo '  make test-debug          kernel tests under KASAN, lockdep, UBSAN, KCSAN, PREEMPT_RT'
	@echo '  make fuzz                fuzz the parsers, and keep new inputs [FUZZ_SECONDS=$(FUZZ_SECONDS)]'
	@echo '  make bench               measure the cost of qdiscs, agent, lab and simulator'
	@echo 'Published figures [FIGURES=, SEEDS=, SEED=, KERNEL=, JOBS=, OUT=]:'
	@echo '  make figures             run and draw all of them: hours'
	@echo '  make figures-quick       the same with few and short runs: minutes'
	@echo '  make published-figures   draw them from the numbers in docs/figures: a minute'
	@echo '  make publish-figures     put the results of make figures into docs/figures'
	@echo '  make verify              repeat 5 % of their stored runs, to the bit [SHARE=, SEED=]'
	@echo '  make restamp-figures     mark docs/figures as current, after pure renames only'
	@echo '  make report              one page with all figures'
	@echo 'Other:'
	@echo '  make deps                install all packages (scripts/packages)'
	@echo '  make dist                pack a release: build/dist/fairpath-$(VERSION).tar.xz'
	@echo '  make site                make a site of the documentation: build/site [HOMEPAGE=]'
	@echo '  make upstream LINUX=DIR  make patches of drr_fq for the kernel [IPROUTE2=DIR, OUT=]'
	@echo '  make deb                 build packages of Debian in build/deb [MAINTAINER=, HOMEPAGE=]'
	@echo '  make clean               remove build/'

# Modules

.PHONY: check-kernel
check-kernel:
	@test -n '$(KERNELRELEASE)' || { \
		echo 'No kernel headers in $(KERNELDIR): install linux-headers for your kernel, or set KERNELDIR$(if \
			$(filter %uninstall,$(MAKECMDGOALS)), or KERNELRELEASE).' >&2; \
		exit 2; }
	@$(if $(filter %uninstall,$(MAKECMDGOALS)),:,ARCH='$(ARCH)' scripts/check-kernel $(if $(and $(filter \
		%install install-modules,$(MAKECMDGOALS)),$(if $(INSTALL_MOD_PATH),,yes)),--install) '$(KERNELDIR)' '$(KERNELRELEASE)')

.PHONY: modules
modules: check-kernel
	@mkdir -p $(BUILD)
	@cp --parents --update --preserve=mode,timestamps $(SOURCES) $(BUILD)
	$(MAKE) -C $(KERNELDIR) M=$(abspath $(BUILD)) FAIRPATH_MODULES='$(MODULES)' modules

# kbuild signs, strips and compresses as the kernel's configuration and
# INSTALL_MOD_STRIP say. A package's depmod is run when it is installed.
.PHONY: install-modules
install-modules: modules
	$(MAKE) -C $(KERNELDIR) M=$(abspath $(BUILD)) FAIRPATH_MODULES='$(MODULES)' DEPMOD=true \
		INSTALL_MOD_PATH='$(abspath $(INSTALL_MOD_PATH))' INSTALL_MOD_DIR='$(INSTALL_MOD_DIR)' modules_install
	$(if $(INSTALL_MOD_PATH),,$(DEPMOD) $(KERNELRELEASE))
	$(if $(filter tcp_bic,$(MODULES)),@scripts/check-bic-module \
		$(if $(INSTALL_MOD_PATH),--root '$(INSTALL_MOD_PATH)') $(KERNELRELEASE))

.PHONY: modules-install
modules-install: install-modules install-tc

.PHONY: modules-uninstall
modules-uninstall: check-kernel
	rm -rf $(MODULES:%='$(MODULES_DIR)/%')
	$(call remove-part,TC)
	if test -d '$(MODULES_DIR)'; then rmdir --ignore-fail-on-non-empty '$(MODULES_DIR)'; fi
	$(if $(INSTALL_MOD_PATH),,$(DEPMOD) $(KERNELRELEASE))

# A package of DKMS for each module, so that each can be had alone.
dkms_name = fairpath-$(1)
dkms_tree = $(DESTDIR)/usr/src/$(call dkms_name,$(1))-$(VERSION)
dkms_hook = $(DESTDIR)$(sysconfdir)/kernel/$(1)/$(call dkms_name,$(2))
DKMS_EDITS = s,@NAME@,$(call dkms_name,$(1)),; s,@VERSION@,$(VERSION),; s,@MODULE@,$(1),

define copy-dkms-tree
	rm -rf '$(call dkms_tree,$(1))'
	install -d '$(call dkms_tree,$(1))'
	cp --parents --preserve=mode,timestamps LICENSE VERSION $(filter $(1)/% include/%,$(SOURCES)) '$(call dkms_tree,$(1))'
	echo 'obj-m += $(1)/' > '$(call dkms_tree,$(1))/Kbuild'
	sed '$(DKMS_EDITS)' scripts/dkms.conf.in > '$(call dkms_tree,$(1))/dkms.conf'
	$(foreach when,postinst.d header_postinst.d,install -d '$(DESTDIR)$(sysconfdir)/kernel/$(when)' && \
		sed '$(DKMS_EDITS)' scripts/dkms-hook.in > '$(call dkms_hook,$(when),$(1))' && \
		chmod 755 '$(call dkms_hook,$(when),$(1))' &&) :

endef

.PHONY: dkms-tree
dkms-tree:
	$(foreach name,$(MODULES),$(call copy-dkms-tree,$(name)))

# With DESTDIR, only the trees and hooks: DKMS itself knows no other root. One
# after the other, also with make -j. Other kernels that had a module get it again.
.PHONY: dkms-install
dkms-install: check-kernel
ifeq ($(DESTDIR),)
	@command -v dkms >/dev/null || { echo 'dkms is not installed: apt install dkms' >&2; exit 2; }
	set -e; failed=; had=$$(dkms status | sed -n 's|^\(fairpath-[^/, ]*\)[/,].*, *\([^,]*\), [^,]*: installed.*|\1=\2|p'); \
	$(MAKE) --no-print-directory dkms-uninstall; $(MAKE) --no-print-directory dkms-tree; \
	for name in $(MODULES:%=$(call dkms_name,%)); do \
		dkms install $$name/$(VERSION) -k $(KERNELRELEASE) --kernelsourcedir $(KERNELDIR) || failed=yes; \
		for each in $$had; do other=$${each#$$name=}; \
			[ $$other = $$each ] || [ $$other = $(KERNELRELEASE) ] || dkms install $$name/$(VERSION) -k $$other || \
				echo "warning: $$name is not installed for $$other: see above" >&2; \
		done; \
	done; [ ! $$failed ]
	$(if $(filter tcp_bic,$(MODULES)),@scripts/check-bic-module $(KERNELRELEASE))
else
	$(MAKE) --no-print-directory dkms-uninstall
	$(MAKE) --no-print-directory dkms-tree
endif

# All versions; up to 0.1, one package had all modules.
.PHONY: dkms-uninstall
dkms-uninstall:
ifeq ($(DESTDIR),)
	@command -v dkms >/dev/null || { echo 'dkms is not installed: apt install dkms' >&2; exit 2; }
	set -e; for name in fairpath $(MODULES:%=$(call dkms_name,%)); do \
		for version in $$(dkms status $$name | sed -n "s,^$$name/\([^,:]*\).*,\1,p" | sort -u); do \
			dkms remove $$name/$$version --all; rm -rf /usr/src/$$name-$$version; done; done
endif
	rm -rf $(foreach name,$(MODULES),'$(call dkms_tree,$(name))')
	rm -f $(foreach name,$(MODULES),$(foreach when,postinst.d header_postinst.d,'$(call dkms_hook,$(when),$(name))'))

.PHONY: install uninstall
install: modules-install tools-install
# Files of a kernel without headers need KERNELRELEASE.
uninstall: tools-uninstall modules-uninstall

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

WORKFLOW = $(SNAKEMAKE) --config 'quick=$(if $(QUICK),true,false)' 'kernel=$(KERNEL)' 'figures=$(FIGURES)' 'out=$(OUT)' \
	'seeds=$(or $(SEEDS),0)' 'seed=$(or $(SEED),0)'

# Twice, as the first verdicts decide which cases get further seeds. If some runs fail, the report
# shows the others.
.PHONY: figures figures-quick
figures figures-quick:
	@scripts/install-deps modules tc tools slbnsim vm lab figures
	@$(WORKFLOW) $(if $(QUICK),,&& $(WORKFLOW)) || { $(REPORT) $(QUICK); exit 1; }

.PHONY: report
report:
	@$(REPORT)

# The numbers of all runs, as they are in docs/figures, and the page on them. It
# says which claims are inconsistent (status 4), and which figures lack runs (3).
PUBLISHED := docs/figures
FIGURES_DATA := $(PUBLISHED)/data.tar.xz
# In a directory $$out, which is removed at the shell's end, also at a signal.
UNPACKED = out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM; \
	tar -C "$$out" -xJf $(FIGURES_DATA)

.PHONY: publish-figures
publish-figures:
	@$(DRAW) >/dev/null || test $$? -ge 3
	@$(REPORT)
	install -d $(PUBLISHED)
	install -m 644 $(OUT)/reproduction.md docs
	@set -e; new=$$(mktemp); \
	trap 'rm -f "$$new" $(FIGURES_DATA).new' EXIT; \
	trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM; \
	tar -C $(OUT) --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		--exclude='.*' -cf "$$new" data; \
	xz -9e <"$$new" >$(FIGURES_DATA).new; \
	mv $(FIGURES_DATA).new $(FIGURES_DATA)

# Only after changes of sources that cannot change a number (a renamed file, a comment): the
# published runs get the fingerprints of today's sources, and the page is written again.
.PHONY: restamp-figures
restamp-figures:
	@set -e; $(UNPACKED); \
	scripts/fairlab figure --restamp --out "$$out" '*'; \
	$(MAKE) --silent --no-print-directory publish-figures OUT="$$out"

# A random part of the published runs that have a record. Status 1: a run
# differs; 5: none does, but some cannot be compared here.
SHARE ?= 5
.PHONY: verify
verify:
	@scripts/install-deps modules tc tools slbnsim vm lab
	@$(UNPACKED); \
	scripts/fairlab verify --out "$$out" --share '$(SHARE)' $(if $(SEED),--seed '$(SEED)')

# Files that exist are kept.
.PHONY: published-figures
published-figures:
	install -d $(OUT)
	tar -C $(OUT) --skip-old-files -xJf $(FIGURES_DATA)
	@$(DRAW) || test $$? -ge 3
	@$(REPORT)

# Tests

.PHONY: check
check:
	$(call checked,modules tc tools slbnsim lab fuzz tests)
	@scripts/hooks/commit-msg
	@tests/run check

# git then refuses commits whose message `make check` would refuse.
.PHONY: hooks
hooks:
	git config core.hooksPath scripts/hooks

# Messages are a warning here: continuous integration may add commits of its own.
.PHONY: test
test:
	@scripts/install-deps modules tc tools slbnsim vm lab figures bench fuzz tests
	@scripts/hooks/commit-msg || echo 'warning: make check refuses these messages' >&2
	@tests/run test

.PHONY: test-all
test-all:
	$(call checked,modules tc tools slbnsim vm lab figures bench fuzz tests foreign site packages)
	@tests/run all

# As root: clean roots have files of many owners, and devices.
RELEASES ?= bookworm trixie $(if $(FAIRPATH_MIRROR),noble)
.PHONY: test-packages
test-packages:
	$(call checked,vm tests packages)
	@tests/run $(RELEASES:%=--stage packages-%)

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

.PHONY: site
site:
	$(call checked,site)
	@scripts/site build/site

# Patches to send, for the sources LINUX and IPROUTE2.
.PHONY: upstream
upstream: OUT = build/upstream
upstream:
	$(call checked,tests)
	@scripts/upstream $(if $(LINUX),--linux '$(LINUX)') $(if $(IPROUTE2),--iproute2 '$(IPROUTE2)') '$(OUT)'

# Debian's packages, of what is committed. Who builds them, and where the project's
# page is: MAINTAINER, HOMEPAGE.
.PHONY: deb
deb:
	$(call checked,tools tc slbnsim packages)
	@set -e; said=$$(scripts/debian-source build/deb); cd "$$(echo "$$said" | tail -n 1)"; \
		env -u MAKEFLAGS -u MAKELEVEL -u MAKEOVERRIDES dpkg-buildpackage --no-sign --build=full; \
		lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs ../*.changes

.PHONY: clean
clean:
	rm -rf build
