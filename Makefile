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

# Not every user has depmod and dkms on the path.
export PATH := $(PATH):/usr/sbin:/sbin

# Targets in their order; what they call may still run in parallel.
.NOTPARALLEL:

ROOMS := tcp_bic tcp_gaimd sch_drr_fq
SOURCES := Kbuild $(wildcard $(ROOMS:%=%/Kbuild) $(ROOMS:%=%/*.[ch])) \
	$(shell find include -type f)

.PHONY: help
help:
	@echo 'make demo            BIC, GAIMD, CUBIC and Reno share a bottleneck, on a stock kernel in a VM'
	@echo 'make test            all tests, on Linux 6.1 and 6.12'
	@echo 'make test-matrix     the kernel tests on every supported kernel (6.1, 6.12, 7.2)'
	@echo 'make modules         build the modules [KERNELDIR=$(KERNELDIR)]'
	@echo 'make install         install them for that kernel, over its own [DESTDIR=, DEPMOD=]'
	@echo 'make uninstall       take them away again'
	@echo 'make dkms-install    let DKMS build them for each kernel that comes'
	@echo 'make dkms-uninstall  and stop that'
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

.PHONY: install
install: modules
	install -d $(MODULES_DIR)
	install -m 644 $(foreach room,$(ROOMS),$(BUILD)/$(room)/$(room).ko) $(MODULES_DIR)
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(KERNELRELEASE)
	@scripts/whose-bic $(if $(DESTDIR),--root $(DESTDIR)) $(KERNELRELEASE)

.PHONY: uninstall
uninstall: check-kernel
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
dkms-install: check-kernel dkms-uninstall dkms-tree
ifeq ($(DESTDIR),)
	dkms install fairpath/$(VERSION) -k $(KERNELRELEASE) --kernelsourcedir $(KERNELDIR)
	@scripts/whose-bic $(KERNELRELEASE)
endif

.PHONY: dkms-uninstall
dkms-uninstall:
ifeq ($(DESTDIR),)
	@command -v dkms >/dev/null || { echo 'dkms is not installed: apt install dkms' >&2; exit 2; }
	if dkms status fairpath/$(VERSION) | grep -q .; then dkms remove fairpath/$(VERSION) --all; fi
endif
	rm -rf $(DKMS_TREE)

.PHONY: deps
deps:
	@scripts/install-deps

.PHONY: demo
demo:
	@scripts/install-deps build vm lab
	@scripts/fairlab demo

.PHONY: test
test: deps
	@tests/run

.PHONY: test-matrix
test-matrix: deps
	@tests/run --stage kernel --kernel 6.1 --kernel 6.12 --kernel 7.2

.PHONY: clean
clean:
	rm -rf build
