# SPDX-License-Identifier: GPL-2.0
#
# The only entry points: `make help` lists what a person can do.
#
# Modules are built in build/modules/RELEASE, a mirror of the sources for each
# kernel, so that several kernels can be built for side by side and the tree
# stays clean.

VERSION := 0.1.0

KERNELDIR ?= /lib/modules/$(shell uname -r)/build
DEPMOD ?= depmod
DESTDIR ?=

# Expanded only where a kernel is needed, so that `make help` needs none.
KERNELRELEASE ?= $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
	'$(KERNELDIR)/include/generated/utsrelease.h' 2>/dev/null)
BUILD = build/modules/$(KERNELRELEASE)
MODULES_DIR = $(DESTDIR)/lib/modules/$(KERNELRELEASE)/updates/fairpath

# Where tc looks for plugins is compiled into it; expanded only where needed.
TC = $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v tc)
TC_LIB_DIR = $(if $(TC),$(shell grep -aoE '/[[:alnum:]_./+-]*lib[[:alnum:]_./+-]*/tc/' $(TC) | head -n 1))
MAN_DIR = $(DESTDIR)/usr/share/man

# Not every user has depmod and dkms on the path.
export PATH := $(PATH):/usr/sbin:/sbin

# Targets in their order; what they call may still run in parallel.
.NOTPARALLEL:

ROOMS := tcp_bic tcp_gaimd sch_drr_fq sch_slbn
SOURCES := Kbuild $(wildcard $(ROOMS:%=%/Kbuild) $(ROOMS:%=%/*.[ch])) \
	$(shell find include -type f)

.PHONY: help
help:
	@echo 'make demo            flows come and go on a backbone with SLBN and without, on a stock kernel in a VM'
	@echo 'make figures         the published figures again, in virtual time: hours [FIGURES=, SEEDS=, KERNEL=, JOBS=, OUT=]'
	@echo 'make figures-quick   the same with few and short runs: minutes'
	@echo 'make published-figures  draw the figures of the numbers of our own runs (docs/figures): a minute'
	@echo 'make publish-figures put the figures and numbers that are there in docs/figures'
	@echo 'make restamp-figures accept docs/figures as current, after changes that cannot change a number'
	@echo 'make report          one page with all figures that are there (make figures does that, too)'
	@echo 'make test            all tests, on Linux 6.1 and 6.12'
	@echo 'make test-matrix     the kernel tests, and virtual time, on every supported kernel (6.1, 6.12, 7.2)'
	@echo 'make test-debug      the tests of the qdiscs in a kernel that checks itself (KASAN, lockdep, UBSAN)'
	@echo 'make modules         build the modules [KERNELDIR=$(KERNELDIR)]'
	@echo 'make tc-plugins      build what tc needs to understand the qdiscs (build/tc)'
	@echo 'make tools           build slbnctl, slbnd and libslbn, SLBN'"'"'s programs (build/)'
	@echo 'make slbnsim         build the simulator for networks too large to emulate (build/slbnsim)'
	@echo 'make install         install all these, the modules for that kernel, over its own [DESTDIR=, DEPMOD=]'
	@echo 'make uninstall       take them away again'
	@echo 'make dkms-install    let DKMS build the modules for each kernel that comes, and install-tools'
	@echo 'make dkms-uninstall  and stop that'
	@echo 'make install-tools   only tc plugins, programs and manual pages [DESTDIR=, TC_LIB_DIR=]'
	@echo 'make uninstall-tools take them away again'
	@echo 'make bench           what our qdiscs and mainline'"'"'s, slbnd, the lab and slbnsim cost (tables)'
	@echo 'make fuzz            look for what breaks SLBN'"'"'s parser and tasks and slbnsim'"'"'s readers, and keep what was found [FUZZ_SECONDS=$(FUZZ_SECONDS)]'
	@echo 'make traffic         build the program that makes background load in the lab'
	@echo 'make deps            install the packages that all of this needs (scripts/packages)'
	@echo 'make clean           remove build/'

.PHONY: check-kernel
check-kernel:
	@test -n '$(KERNELRELEASE)' || { \
		echo 'No kernel headers in $(KERNELDIR): install linux-headers for your kernel, or set KERNELDIR.' >&2; \
		exit 2; }

.PHONY: modules
modules: check-kernel
	@mkdir -p $(BUILD)
	@cp --parents --update --preserve=mode,timestamps $(SOURCES) $(BUILD)
	$(MAKE) -C $(KERNELDIR) M=$(abspath $(BUILD)) modules

TC_PLUGINS := $(patsubst userspace/tc/%.c,build/tc/%.so,$(wildcard userspace/tc/q_*.c))
TC_CFLAGS := -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden

.PHONY: tc-plugins
tc-plugins: $(TC_PLUGINS)

build/tc/%.so: userspace/tc/%.c $(wildcard userspace/common/*.h userspace/tc/*.h include/uapi/fairpath/*.h)
	@mkdir -p build/tc
	$(CC) -Iinclude/uapi $(CPPFLAGS) $(TC_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $<

.PHONY: check-tc
check-tc:
	@test -n '$(TC_LIB_DIR)' || { \
		echo 'No tc that says where it looks for plugins: install iproute2, or set TC_LIB_DIR.' >&2; \
		exit 2; }

SLBNCTL := build/slbnctl/slbnctl
TOOL_CFLAGS := -std=gnu11 -O2 -Wall -Wextra -Werror

SLBND := build/slbnd/slbnd
SLBND_LIBRARIES := libmnl libbpf libnetfilter_conntrack libnftables
LIBSLBN := build/libslbn/libslbn.so.0
# Where this compiler's programs look for libraries.
LIB_DIR = $(DESTDIR)/usr/lib/$(shell $(CC) -print-multiarch)

.PHONY: tools
tools: $(SLBNCTL) $(SLBND) $(LIBSLBN)

.PHONY: check-tools
check-tools:
	@pkg-config --exists json-c $(SLBND_LIBRARIES) && command -v clang >/dev/null && \
		command -v $(BPFTOOL) >/dev/null || { \
		echo 'slbnctl and slbnd need some packages: install libmnl-dev, libjson-c-dev, libbpf-dev,' \
			'libnetfilter-conntrack-dev, libnftables-dev, clang, pkgconf and bpftool' \
			'(in Ubuntu 24.04, linux-tools-generic).' >&2; \
		exit 2; }

$(SLBNCTL): $(wildcard userspace/slbnctl/*.[ch] userspace/libslbn/*.[ch] userspace/common/*.h \
		include/uapi/fairpath/*.h) | check-tools
	@mkdir -p $(@D)
	$(CC) -Iinclude/uapi -DVERSION='"$(VERSION)"' $(CPPFLAGS) $(TOOL_CFLAGS) $(CFLAGS) \
		$$(pkg-config --cflags libmnl json-c) $(LDFLAGS) -o $@ $(filter %.c,$^) \
		$$(pkg-config --libs libmnl json-c)

# What slbnd loads into the kernel, and the header by which it does.
RATES := build/slbnd/rates.skel.h
# Ubuntu's bpftool in the path only works if it is that of the running kernel.
BPFTOOL = $(firstword $(wildcard /usr/lib/linux-tools/*/bpftool) bpftool)

$(RATES): userspace/slbnd/rates.bpf.c userspace/slbnd/rates.h userspace/slbnd/enforce.h \
		$(wildcard userspace/libslbn/*.h include/fairpath/*.h include/uapi/fairpath/*.h) | check-tools
	@mkdir -p $(@D)
	clang -target bpf -O2 -g -ffreestanding -Wall -Wextra -Werror -Iinclude -Iinclude/uapi \
		-I/usr/include/$(shell $(CC) -print-multiarch) -c $< -o $(@:.skel.h=.o)
	$(BPFTOOL) gen skeleton $(@:.skel.h=.o) name rates > $@.new
	mv $@.new $@

$(SLBND): $(filter-out %.bpf.c,$(wildcard userspace/slbnd/*.[ch])) $(RATES) $(wildcard userspace/libslbn/*.h \
		userspace/common/*.h include/fairpath/*.h include/uapi/fairpath/*.h) \
		include/fairpath/slbn/slbn_core.h include/fairpath/slbn/slbn_wire.h | check-tools
	@mkdir -p $(@D)
	$(CC) -Iinclude -Iinclude/uapi -I. -I$(dir $(RATES)) -D_GNU_SOURCE -DVERSION='"$(VERSION)"' $(CPPFLAGS) \
		$(TOOL_CFLAGS) $(CFLAGS) $$(pkg-config --cflags $(SLBND_LIBRARIES)) $(LDFLAGS) -o $@ $(filter %.c,$^) \
		$$(pkg-config --libs $(SLBND_LIBRARIES))

$(LIBSLBN): $(wildcard userspace/libslbn/*.[ch])
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(TOOL_CFLAGS) -fPIC -shared -Wl,-soname,$(@F) \
		$(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c,$^)

SLBNSIM := build/slbnsim/slbnsim
SLBNSIM_LIBRARIES := json-c yajl

.PHONY: slbnsim
slbnsim: $(SLBNSIM)

$(SLBNSIM): $(wildcard userspace/slbnsim/*.[ch] userspace/common/*.h include/fairpath/*.h) include/fairpath/slbn/slbn_core.h \
		include/fairpath/slbn/slbn_wire.h include/uapi/fairpath/slbn.h
	@pkg-config --exists $(SLBNSIM_LIBRARIES) || { \
		echo 'slbnsim needs some packages: install libjson-c-dev, libyajl-dev and pkgconf.' >&2; \
		exit 2; }
	@mkdir -p $(@D)
	$(CC) -Iinclude -Iinclude/uapi -I. -DVERSION='"$(VERSION)"' $(CPPFLAGS) $(TOOL_CFLAGS) $(CFLAGS) \
		$$(pkg-config --cflags $(SLBNSIM_LIBRARIES)) $(LDFLAGS) -o $@ $(filter %.c,$^) \
		$$(pkg-config --libs $(SLBNSIM_LIBRARIES)) -lm

# fairlab runs from the tree.
MANUAL := $(filter-out docs/man/fairlab.1,$(wildcard docs/man/*.[138]))
# docs/man/NAME.8 is to be in man8/NAME.8.
MANUAL_INSTALLED = $(foreach page,$(MANUAL),$(MAN_DIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
UNIT_DIR = $(DESTDIR)/usr/lib/systemd/system
PYTHON_DIR = $(DESTDIR)/usr/lib/python3/dist-packages

.PHONY: install-tools
install-tools: check-tc tc-plugins tools slbnsim
	install -d $(DESTDIR)$(TC_LIB_DIR) $(DESTDIR)/usr/bin $(DESTDIR)/usr/sbin $(sort $(dir $(MANUAL_INSTALLED))) $(UNIT_DIR) \
		$(LIB_DIR)/pkgconfig $(DESTDIR)/usr/include $(PYTHON_DIR)
	install -m 644 $(TC_PLUGINS) $(DESTDIR)$(TC_LIB_DIR)
	install -m 755 $(SLBNCTL) $(SLBND) $(DESTDIR)/usr/sbin
	install -m 755 $(SLBNSIM) $(DESTDIR)/usr/bin
	install -m 755 userspace/slbnsim/graphml.py $(DESTDIR)/usr/bin/slbnsim-graphml
	sed 's,@SBINDIR@,/usr/sbin,' userspace/slbnd/slbnd.service.in > $(UNIT_DIR)/slbnd.service
	install -m 644 $(LIBSLBN) $(LIB_DIR)
	ln -sf libslbn.so.0 $(LIB_DIR)/libslbn.so
	install -m 644 userspace/libslbn/libslbn.h $(DESTDIR)/usr/include
	sed 's,@VERSION@,$(VERSION),; s,@LIBDIR@,$(LIB_DIR:$(DESTDIR)%=%),; s,@INCLUDEDIR@,/usr/include,' \
		userspace/libslbn/libslbn.pc.in > $(LIB_DIR)/pkgconfig/libslbn.pc
	install -m 644 userspace/libslbn/libslbn.py $(PYTHON_DIR)
	$(foreach page,$(MANUAL_INSTALLED),install -m 644 docs/man/$(notdir $(page)) $(page) &&) :

.PHONY: uninstall-tools
uninstall-tools:
	rm -f $(if $(TC_LIB_DIR),$(TC_PLUGINS:build/tc/%=$(DESTDIR)$(TC_LIB_DIR)/%))
	rm -f $(DESTDIR)/usr/sbin/slbnctl $(DESTDIR)/usr/sbin/slbnd $(DESTDIR)/usr/bin/slbnsim $(DESTDIR)/usr/bin/slbnsim-graphml \
		$(UNIT_DIR)/slbnd.service
	rm -f $(LIB_DIR)/libslbn.so $(LIB_DIR)/libslbn.so.0 $(LIB_DIR)/pkgconfig/libslbn.pc
	rm -f $(DESTDIR)/usr/include/libslbn.h $(PYTHON_DIR)/libslbn.py
	rm -f $(MANUAL_INSTALLED)

.PHONY: install
install: modules install-tools
	install -d $(MODULES_DIR)
	install -m 644 $(foreach room,$(ROOMS),$(BUILD)/$(room)/$(room).ko) $(MODULES_DIR)
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(KERNELRELEASE)
	@scripts/check-bic-module $(if $(DESTDIR),--root $(DESTDIR)) $(KERNELRELEASE)

.PHONY: uninstall
uninstall: check-kernel uninstall-tools
	rm -rf $(MODULES_DIR)
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(KERNELRELEASE)

DKMS_TREE = $(DESTDIR)/usr/src/fairpath-$(VERSION)

.PHONY: dkms-tree
dkms-tree:
	rm -rf $(DKMS_TREE)
	install -d $(DKMS_TREE)/scripts
	cp --parents --preserve=timestamps Makefile LICENSE $(SOURCES) $(DKMS_TREE)
	sed 's/@VERSION@/$(VERSION)/' scripts/dkms.conf.in > $(DKMS_TREE)/dkms.conf

# With DESTDIR, only the tree: DKMS itself knows no other root.
.PHONY: dkms-install
dkms-install: check-kernel dkms-uninstall dkms-tree install-tools
ifeq ($(DESTDIR),)
	dkms install fairpath/$(VERSION) -k $(KERNELRELEASE) --kernelsourcedir $(KERNELDIR)
	@scripts/check-bic-module $(KERNELRELEASE)
endif

.PHONY: dkms-uninstall
dkms-uninstall: uninstall-tools
ifeq ($(DESTDIR),)
	@command -v dkms >/dev/null || { echo 'dkms is not installed: apt install dkms' >&2; exit 2; }
	if dkms status fairpath/$(VERSION) | grep -q .; then dkms remove fairpath/$(VERSION) --all; fi
endif
	rm -rf $(DKMS_TREE)

.PHONY: deps
deps:
	@scripts/install-deps

# Makes the background load of the lab's experiments.
TRAFFIC := build/traffic/fairtraffic build/traffic/fairflow

.PHONY: traffic
traffic: $(TRAFFIC)

build/traffic/fairtraffic: $(addprefix userspace/traffic/,fairtraffic.c traffic_source.c traffic_sink.c traffic_io.c common.c)
build/traffic/fairflow: $(addprefix userspace/traffic/,fairflow.c flow_send.c flow_samples.c common.c)

$(TRAFFIC): $(wildcard userspace/traffic/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra $(CFLAGS) -o $@ $(filter %.c,$^) -lm -lpthread

.PHONY: demo
demo:
	@scripts/install-deps build vm lab
	@scripts/fairlab backbone

FIGURES ?= *
KERNEL ?= 6.1
JOBS ?= $(shell nproc)
OUT ?= $(if $(filter figures-quick,$(MAKECMDGOALS)),results/figures-quick,results/figures)
# Guests are not to need more memory than there is.
MEMORY = $(shell awk '/^MemTotal/ { print int($$2 / 1024) }' /proc/meminfo)
# Runs are complete or not there, so neither locks nor marks of unfinished ones are needed.
SNAKEMAKE = PYTHONDONTWRITEBYTECODE=1 snakemake --snakefile userspace/lab/Snakefile --cores '$(JOBS)' \
	--resources mem_mb=$(MEMORY) --rerun-triggers mtime --rerun-incomplete --nolock --keep-going
QUICK = $(if $(filter figures-quick,$@),--quick)
DRAWN = --kernel '$(KERNEL)' --out '$(OUT)' $(if $(SEEDS),--seeds '$(SEEDS)')
REPORT = scripts/fairlab report $(DRAWN)
DRAW = scripts/fairlab figure --draw $(DRAWN) '*'

# Where something fails, a page of what is there tells what.
.PHONY: figures figures-quick
figures figures-quick:
	@scripts/install-deps build vm lab figures
	@$(SNAKEMAKE) --config 'quick=$(if $(QUICK),true,false)' 'kernel=$(KERNEL)' 'figures=$(FIGURES)' 'out=$(OUT)' \
		'seeds=$(or $(SEEDS),0)' || { $(REPORT) $(QUICK); exit 1; }

.PHONY: report
report:
	@$(REPORT)

# The numbers of all runs, and what came of them in words, as they are in docs/figures.
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

# Only after changes of sources that cannot change a number (a renamed file, a comment): the published
# runs get the fingerprints of today's sources, and report.md is written again.
.PHONY: restamp-figures
restamp-figures:
	@set -e; out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; tar -C "$$out" -xJf $(FIGURES_DATA); \
	scripts/fairlab figure --restamp --out "$$out" '*'; \
	$(MAKE) --silent --no-print-directory publish-figures OUT="$$out"

# What is there already stays.
.PHONY: published-figures
published-figures:
	install -d $(OUT)
	tar -C $(OUT) --skip-old-files -xJf $(FIGURES_DATA)
	@$(DRAW) || test $$? = 4
	@$(REPORT)

FUZZ_SECONDS ?= 600

.PHONY: fuzz
fuzz:
	@scripts/install-deps build tests
	@/usr/bin/python3 tests/fuzz/fuzzers.py --seconds $(FUZZ_SECONDS)

.PHONY: bench
bench:
	@scripts/install-deps build vm lab bench
	@tests/bench/bench

.PHONY: test
test: deps
	@tests/run

.PHONY: test-matrix
test-matrix: deps
	@tests/run --stage virtual --stage kernel --kernel 6.1 --kernel 6.12 --kernel 7.2

.PHONY: test-debug
test-debug: deps
	@tests/run --stage debug

.PHONY: clean
clean:
	rm -rf build
