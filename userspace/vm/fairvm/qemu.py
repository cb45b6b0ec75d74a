# SPDX-License-Identifier: GPL-2.0
"""The engine `vm`: a stock kernel in qemu, with KVM if it works, else emulated (TCG)."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fairvm.architecture import AMD64
from fairvm.cache import Kernel, cache_dir, locked
from fairvm.errors import VmError
from fairvm.host import need
from fairvm.initrd import base_initrd
from fairvm.machine import COMMON_ARGUMENTS, Machine
from fairvm.request import Request

KVM_TRIAL_SECONDS = 10

# --steady: the guest's clock counts instructions (2 ns each) and jumps ahead when it is idle.
STEADY = ["-icount", "shift=1,sleep=off", "-rtc", "base=utc,clock=vm"]
# While the guest waits for a file of the host, it is idle, and its clock jumps from timer to timer:
# on a busy host, starting a program for the first time took up to 55 s of guest time.  With a
# permanent timer tick the jumps are 4 ms, and it takes below 0.1 s.  (The tick costs 18 ms of host
# time for each idle second of the guest.)
STEADY_KERNEL_ARGUMENTS = ["nohz=off"]

KERNEL_ARGUMENTS = [
    *COMMON_ARGUMENTS,
    "panic=-1",
    "mitigations=off",
    "nokaslr",
    "audit=0",
    "cryptomgr.notests",
    "rdinit=/init",
    # An emulated CPU may not be scheduled for a while: shorter pauses are not the guest's fault.
    "watchdog_thresh=30",
    "rcupdate.rcu_cpu_stall_timeout=60",
]


@dataclass
class Qemu(Machine):
    """A stock kernel in qemu."""

    accelerator: str = "tcg"
    smp: int = 1
    steady: bool = False
    root: Path = Path("/")  # of the guest's files

    def command(self, initrd: int, console: int, ports: dict[str, int]) -> list[str]:
        def escape(path: Path) -> str:
            return str(path).replace(",", ",,")

        kvm = self.accelerator == "kvm"
        threads = "multi" if self.accelerator == "mttcg" else "single"
        target = self.kernel.architecture
        line = [need(target.qemu, target.package)]
        line += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        line += [*target.options, "-m", self.memory, "-smp", str(self.smp)]
        line += ["-accel", "kvm" if kvm else f"tcg,thread={threads}"]
        if target == AMD64:
            line += ["-cpu", "host" if kvm else "max"]
        line += STEADY if self.steady else []
        line += ["-kernel", str(self.kernel.image), "-initrd", f"/proc/self/fd/{initrd}"]
        arguments = [f"console={target.console}", *KERNEL_ARGUMENTS]
        # Emulated, the test fails if this process does not run for tens of ms, and the kernel
        # panics (setup_IO_APIC). Under KVM, the kernel leaves the test out by itself.
        arguments += ["no_timer_check"] if target == AMD64 else []
        arguments += STEADY_KERNEL_ARGUMENTS if self.steady else []
        line += ["-append", " ".join(arguments + self.append)]
        line += ["-chardev", f"file,id=console,path=/proc/self/fd/{console}"]
        line += ["-serial", "chardev:console"]
        # Without ioeventfd a write to a port is synchronous, so that under --steady no guest time
        # passes meanwhile.
        events = "on" if kvm else "off"
        line += ["-device", f"virtio-serial-{target.bus},ioeventfd={events}"]
        for name, descriptor in ports.items():
            line += ["-chardev", f"file,id={name},path=/proc/self/fd/{descriptor}"]
            line += ["-device", f"virtserialport,chardev={name},name={name}"]
        shares = [("root", self.root, ",readonly=on")]
        shares += [(f"rw{number}", path, "") for number, path in enumerate(self.writable)]
        for tag, path, mode in shares:
            options = f"security_model=none,multidevs=remap{mode}"
            line += ["-fsdev", f"local,id={tag},path={escape(path)},{options}"]
            line += ["-device", f"virtio-9p-{target.bus},fsdev={tag},mount_tag={tag}"]
        return line


def kvm_works(request: Request, kernel: Kernel) -> tuple[bool, str]:
    """Does KVM work here, and why (not)?  Tried by a short boot, once per boot of the host."""
    device = Path("/dev/kvm")
    if not device.exists():
        return False, "there is no /dev/kvm"
    if not os.access(device, os.R_OK | os.W_OK):
        return False, "/dev/kvm is not accessible to this user"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    qemu = Path(need("qemu-system-x86_64", "qemu-system-x86")).stat().st_mtime_ns
    key = f"{boot} {qemu}"
    kept = cache_dir() / f"kvm-{os.getuid()}"
    with locked(cache_dir() / "kvm-lock"):
        if kept.exists():
            # It may be incomplete: the disk was full.
            known, verdict, reason = (kept.read_text() + "\n\n").split("\n")[:3]
            if known == key:
                return verdict == "works", f"{reason} (tested earlier)"
        request.trace(f"trying KVM for at most {KVM_TRIAL_SECONDS} s")
        with tempfile.TemporaryDirectory(prefix="fairpath-vm-") as scratch:
            log = Path(scratch) / "log"
            trial = Qemu(kernel, base_initrd(kernel), log, append=["fairpath.trial"])
            trial.accelerator = "kvm"
            outcome = trial.run(KVM_TRIAL_SECONDS, request.trace, trial=True)
        if outcome.ready:
            verdict, reason = "works", "a trial boot with KVM succeeded"
        elif outcome.timed_out:
            verdict, reason = (
                "fails",
                f"a trial boot with KVM took longer than {KVM_TRIAL_SECONDS} s",
            )
        else:
            why = outcome.errors.splitlines()[-1:] or ["the guest died"]
            verdict, reason = "fails", f"a trial boot with KVM failed: {why[0]}"
        kept.write_text(f"{key}\n{verdict}\n{reason}\n")
    return verdict == "works", reason


def choose_accelerator(request: Request, kernel: Kernel) -> str:
    if request.steady:
        request.trace("emulating (TCG): --steady counts instructions")
        return "tcg"
    if request.accelerator in ("tcg", "mttcg"):
        return request.accelerator
    if kernel.architecture != AMD64:
        request.trace(f"emulating (TCG): {kernel.architecture.name}")
        return "tcg"
    works, reason = kvm_works(request, kernel)
    if request.accelerator == "kvm" and not works:
        raise VmError(f"KVM does not work: {reason}")
    request.trace(f"{'KVM' if works else 'emulating (TCG)'}: {reason}")
    return "kvm" if works else "tcg"
