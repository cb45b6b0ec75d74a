# SPDX-License-Identifier: GPL-2.0
#
# Userspace: the tc plugins, slbnctl, slbnd, libslbn, slbnsim and the lab's
# traffic programs. Included by the top-level Makefile.
#
# Each program is linked from the objects of its directory and, for units, link
# options and authentication, from build/common/libcommon.a. Objects are in
# build/obj, with the dependencies that the compiler found (-MMD). CFLAGS,
# CPPFLAGS and LDFLAGS are the user's; WERROR=-Werror is what the tests set.

MULTIARCH = $(shell $(CC) -print-multiarch)
BASE_CPPFLAGS = -Iinclude -Iinclude/uapi -Iuserspace -I. -Ibuild/slbnd -MMD -MP
# Programs are the same wherever the tree is: `fairlab verify` compares their hashes.
PREFIX_MAP = -ffile-prefix-map=$(CURDIR)=.
BASE_CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra $(PREFIX_MAP) $(WERROR)
WERROR ?=
PKG_CONFIG ?= pkg-config
CLANG ?= clang

objects = $(patsubst %.c,build/obj/%.o,$(1))
# $(call pkg,--cflags,LIBRARIES): nothing for no libraries.
pkg = $(if $(strip $(2)),$$($(PKG_CONFIG) $(1) $(2)))

# After a change of flags, too.
build/obj/%.o: %.c userspace/build.mk
	@mkdir -p $(@D)
	$(CC) $(BASE_CPPFLAGS) $(CPPFLAGS) $(BASE_CFLAGS) $(OBJECT_FLAGS) $(CFLAGS) \
		$(call pkg,--cflags,$(LIBRARIES)) -c -o $@ $<

LINK = $(CC) $(BASE_CFLAGS) $(CFLAGS) $(LDFLAGS)

# What several programs share; position-independent, as tc's plugins have it too.
COMMON := build/common/libcommon.a
COMMON_OBJECTS := $(call objects,$(wildcard userspace/common/*.c))
$(COMMON_OBJECTS): OBJECT_FLAGS = -fPIC
$(COMMON): $(COMMON_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

# tc plugins: q_NAME.so, one for each qdisc.
TC_PLUGINS := $(patsubst userspace/tc/%.c,build/tc/%.so,$(wildcard userspace/tc/q_*.c))
TC_OBJECTS := $(call objects,$(wildcard userspace/tc/*.c))
$(TC_OBJECTS): OBJECT_FLAGS = -fPIC -fvisibility=hidden
build/tc/%.so: build/obj/userspace/tc/%.o $(COMMON)
	@mkdir -p $(@D)
	$(LINK) -shared -Wl,--exclude-libs,ALL -o $@ $^

# libslbn: the library by which programs ask the agent for a rate.
LIBSLBN := build/libslbn/libslbn.so.0
LIBSLBN_OBJECTS := $(call objects,$(wildcard userspace/libslbn/*.c))
$(LIBSLBN_OBJECTS): OBJECT_FLAGS = -fPIC
LIBSLBN_MAP := userspace/libslbn/libslbn.map
$(LIBSLBN): $(LIBSLBN_OBJECTS) $(LIBSLBN_MAP)
	@mkdir -p $(@D)
	$(LINK) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(LIBSLBN_MAP) -o $@ $(LIBSLBN_OBJECTS)

SLBNCTL := build/slbnctl/slbnctl
SLBNCTL_LIBRARIES := libmnl json-c
SLBNCTL_OBJECTS := $(call objects,$(wildcard userspace/slbnctl/*.c))
$(SLBNCTL_OBJECTS) $(SLBNCTL): LIBRARIES = $(SLBNCTL_LIBRARIES)
$(SLBNCTL): $(SLBNCTL_OBJECTS) $(call objects,userspace/slbnd/system/tc.c) $(LIBSLBN_OBJECTS) $(COMMON)

# slbnd: rates.bpf.c is compiled for the kernel, and becomes a header. With BPF=no,
# it needs neither clang nor libbpf, and enforces rates by htb only.
BPF ?= yes
$(if $(filter-out yes no,$(BPF)),$(error BPF: 'yes' or 'no', not '$(BPF)'))
ifeq ($(BPF),yes)
WITHOUT_BPF := %/edt_none.c
LIBBPF := libbpf
else
WITHOUT_BPF := %/edt.c %/marks.c %/windows.c
endif
SLBND := build/slbnd/slbnd
SLBND_LIBRARIES := libmnl $(LIBBPF) libnetfilter_conntrack libnftables
SLBND_OBJECTS := $(call objects,$(filter-out %.bpf.c $(WITHOUT_BPF),$(wildcard userspace/slbnd/*/*.c)))
$(SLBND_OBJECTS) $(SLBND): LIBRARIES = $(SLBND_LIBRARIES)
$(SLBND): $(SLBND_OBJECTS) $(COMMON) build/slbnd/bpf-$(BPF)

# Another choice links slbnd again.
build/slbnd/bpf-$(BPF):
	@mkdir -p $(@D)
	@rm -f $(@D)/bpf-*
	@touch $@

RATES := build/slbnd/rates.skel.h
# The BPF program is for the machine that $(CC) compiles for.
BPF_TARGET ?= $(shell $(CC) -dM -E -x c /dev/null | \
	sed -n 's/^#define __BYTE_ORDER__ __ORDER_\([BL]\).*/bpfe\1/p' | tr BL bl)
# In Ubuntu, bpftool on the PATH works only if it is the running kernel's.
BPFTOOL = $(firstword $(wildcard /usr/lib/linux-tools/*/bpftool) bpftool)
$(if $(LIBBPF),$(SLBND_OBJECTS): | $(RATES))

build/obj/userspace/slbnd/enforcement/rates.bpf.o: \
		userspace/slbnd/enforcement/rates.bpf.c userspace/build.mk | check-tools
	@mkdir -p $(@D)
	$(CLANG) -target $(BPF_TARGET) -O2 -g -ffreestanding -Wall -Wextra $(PREFIX_MAP) $(WERROR) \
		-Iinclude -Iinclude/uapi \
		-Iuserspace -I/usr/include/$(MULTIARCH) -MMD -MP -c $< -o $@

$(RATES): build/obj/userspace/slbnd/enforcement/rates.bpf.o
	@mkdir -p $(@D)
	$(BPFTOOL) gen skeleton $< name rates > $@.new
	mv $@.new $@

SLBNSIM := build/slbnsim/slbnsim
SLBNSIM_LIBRARIES := json-c
SLBNSIM_OBJECTS := $(call objects,$(wildcard userspace/slbnsim/*.c))
$(SLBNSIM_OBJECTS) $(SLBNSIM): LIBRARIES = $(SLBNSIM_LIBRARIES)
$(SLBNSIM): LDLIBS = -lm
$(SLBNSIM): $(SLBNSIM_OBJECTS) $(COMMON)

# For the Python package, which is to need no other libraries than libc and libm.
SLBNSIM_WHEEL := build/slbnsim/wheel/slbnsim
$(SLBNSIM_WHEEL): $(SLBNSIM_OBJECTS) $(COMMON)
	@mkdir -p $(@D)
	$(LINK) -s -o $@ $^ -l:libjson-c.a -lm

# The lab's senders and receivers.
TRAFFIC := build/traffic/fairtraffic build/traffic/fairflow
TRAFFIC_OBJECTS := $(call objects,$(wildcard userspace/traffic/*.c))
$(TRAFFIC): LDLIBS = -lm -lpthread
build/traffic/fairtraffic: $(patsubst %,build/obj/userspace/traffic/%.o, \
	fairtraffic traffic_source traffic_sink traffic_io common)
build/traffic/fairflow: $(patsubst %,build/obj/userspace/traffic/%.o, \
	fairflow flow_send flow_samples common)

# For programs of others in runs that repeat to the bit.
RANDOM_DEVICE := build/lab/random_device.so
RANDOM_DEVICE_OBJECTS := $(call objects,userspace/lab/random_device.c)
$(RANDOM_DEVICE_OBJECTS): OBJECT_FLAGS = -fPIC -fvisibility=hidden
$(RANDOM_DEVICE): $(RANDOM_DEVICE_OBJECTS)
	@mkdir -p $(@D)
	$(LINK) -shared -o $@ $^

$(SLBNCTL_OBJECTS) $(SLBND_OBJECTS) $(SLBNSIM_OBJECTS): OBJECT_FLAGS = -D_GNU_SOURCE
OF_PROGRAMS := $(SLBNCTL_OBJECTS) $(SLBND_OBJECTS) $(SLBNSIM_OBJECTS) $(TRAFFIC_OBJECTS)
$(OF_PROGRAMS): OBJECT_FLAGS += -DVERSION='"$(VERSION)"'
$(OF_PROGRAMS): VERSION

$(SLBNCTL) $(SLBND) $(SLBNSIM) $(TRAFFIC):
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o %.a,$^) $(call pkg,--libs,$(LIBRARIES)) $(LDLIBS)

.PHONY: tc-plugins tools slbnsim traffic
tc-plugins: $(TC_PLUGINS)
tools: $(SLBNCTL) $(SLBND) $(LIBSLBN)
slbnsim: $(SLBNSIM)
traffic: $(TRAFFIC) $(RANDOM_DEVICE)

.PHONY: check-tools check-slbnsim
check-tools:
	@$(PKG_CONFIG) --exists $(SLBNCTL_LIBRARIES) $(SLBND_LIBRARIES) && \
		{ test -z '$(LIBBPF)' || command -v $(CLANG) $(BPFTOOL) >/dev/null; } || { \
		echo 'slbnctl and slbnd need some packages: scripts/install-deps tools' >&2; exit 2; }
check-slbnsim:
	@$(PKG_CONFIG) --exists $(SLBNSIM_LIBRARIES) || { \
		echo 'slbnsim needs some packages: scripts/install-deps slbnsim' >&2; exit 2; }
$(SLBNCTL_OBJECTS) $(SLBND_OBJECTS): | check-tools
$(SLBNSIM_OBJECTS): | check-slbnsim

-include $(patsubst %.o,%.d,$(COMMON_OBJECTS) $(TC_OBJECTS) $(LIBSLBN_OBJECTS) \
	$(SLBNCTL_OBJECTS) $(SLBND_OBJECTS) $(SLBNSIM_OBJECTS) $(TRAFFIC_OBJECTS) \
	build/obj/userspace/slbnd/enforcement/rates.bpf.o)
