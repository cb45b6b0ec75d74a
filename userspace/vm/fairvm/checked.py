# SPDX-License-Identifier: GPL-2.0
"""Kernels for qemu that check themselves: `--kernel 6.12-debug` and `6.12-kcsan`.

User-Mode Linux with --debug is faster, but has one CPU and knows no preemption.  These are SMP
kernels for x86 with preemption, built from Debian's source with the options of uml.config (what the
tests need), x86.config (qemu's devices) and:

    6.12-debug  x86-debug.config: KASAN, lockdep, sleeping in atomic context, leaks and others
    6.12-kcsan  x86-kcsan.config: KCSAN, which finds data races, in the network's code

They have no jump labels, so that no code is patched while another CPU executes it, and
`--accel mttcg` can run each CPU in its own thread.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairvm.cache import Kernel, cache_dir, locked
from fairvm.source import Patch, Recipe, is_complete

DATA = Path(__file__).resolve().parent
SERIES = "6.12"
NAMES = {f"{SERIES}-debug": "x86-debug.config", f"{SERIES}-kcsan": "x86-kcsan.config"}
# Kernel arguments.  With 17 processes on two CPUs of the host, a CPU of the guest did not run for
# 80 s; a real stall ends at the timeout of the run.
ARGUMENTS = ("rcupdate.rcu_cpu_stall_timeout=300",)
# Only the network and our modules are instrumented: reports from elsewhere are not our concern, and
# an emulated machine would be several times slower.
NETWORK_ONLY = Patch(
    "scripts/Makefile.lib",
    "$(KCSAN_SANITIZE_$(target-stem).o)$(KCSAN_SANITIZE)$(is-kernel-object)), \\\n",
    "$(if $(KBUILD_EXTMOD)$(filter net% drivers/net%,$(obj)),"
    "$(KCSAN_SANITIZE_$(target-stem).o)$(KCSAN_SANITIZE)$(is-kernel-object),n)), \\\n",
)


def unchecked(path: str, loop: str) -> Patch:
    """A patch that ends PROVE_RCU_LIST's check of the LOOP over an RCU list."""
    return Patch(path, loop, loop.replace(") {", ", true) {", 1))


# nf_tables iterates these lists with its commit mutex held, which PROVE_RCU_LIST reports as a list
# read outside of an RCU reader.  Linux 6.13 names the mutex in the loops (8f5f3786dba7,
# b3e8f29d6b45, 28b7a6b84c0a and 3567146b94af, "netfilter: nf_tables: avoid false-positive lockdep
# splats with sets", "... flowtables", "... in set walker", "... basechain hook").
NF_TABLES = "net/netfilter/nf_tables_api.c"
NF_TABLES_LISTS = (
    unchecked(NF_TABLES, "_rcu(catchall, &set->catchall_list, list) {"),
    unchecked(NF_TABLES, "_rcu(set, &table->sets, list) {\n\t\tif (!nla_strcmp("),
    unchecked(NF_TABLES, "_rcu(flowtable, &table->flowtables, list) {\n\t\tif (!nla_strcmp("),
    unchecked(NF_TABLES, "_rcu(hook, hook_list, list) {"),
    unchecked("net/netfilter/nft_set_hash.c", "_rcu(he, &priv->table[i], node) {"),
    unchecked("net/netfilter/nft_set_bitmap.c", "_rcu(be, &priv->list, head) {"),
)
PATCHES = {f"{SERIES}-debug": NF_TABLES_LISTS, f"{SERIES}-kcsan": (NETWORK_ONLY,)}


def recipe(name: str) -> Recipe:
    """How to build the kernel NAME."""
    texts = [(DATA / file).read_text() for file in ("uml.config", "x86.config", NAMES[name])]
    title, cost = f"Linux {name},", "1700 files, 15 min of CPU time"
    return Recipe(SERIES, title, "x86_64", "vmlinux", "".join(texts), PATCHES[name], cost=cost)


def directory_for(name: str) -> Path:
    """The cache directory of that kernel."""
    made = recipe(name)
    key = made.config + "".join(patch.new for patch in made.patches)
    return cache_dir() / "checked" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def cached() -> list[Kernel]:
    """All these kernels in the cache, of any configuration."""
    found = sorted((cache_dir() / "checked").glob("[0-9]*"))
    return [Kernel(directory) for directory in found if is_complete(directory)]


def get(name: str, refresh: bool = False) -> Kernel:
    """The kernel NAME, built if necessary."""
    directory = directory_for(name)
    if refresh or not is_complete(directory):
        with locked(directory.with_name(f".lock-{directory.name}")):
            if refresh or not is_complete(directory):
                recipe(name).build(directory)
    return Kernel(directory)
