# SPDX-License-Identifier: GPL-2.0
"""What makes a run in virtual time repeat to the bit: changes to the kernel, and its arguments.

exact/exact.c is compiled into User-Mode Linux; the patches below call it, and remove what else the
host decides: the moment at which it has read the guest's output (an interrupt), its clock, the
times of its files, its random numbers.  They have no effect without `exact=SEED` and
`time-travel=inf-cpu` on the kernel's command line, so the engine `native` has the same kernel.

docs/exact.md says what still may differ.
"""

from __future__ import annotations

import re
from pathlib import Path

from fairvm.errors import NotRepeatableError
from fairvm.source import Patch

SOURCES = Path(__file__).resolve().parent / "exact"
#: The files of SOURCES, and where they are in the kernel's tree.
FILES = {"exact.c": "arch/um/kernel/exact.c", "exact.h": "arch/um/include/shared/exact.h"}
#: The guest's date at its start: 18 May 2033, later than any file of the host.
START_NS = 2_000_000_000 * 10**9
#: What the kernel writes if the guest does something that cannot be repeated.
MARK = "not repeatable: "
#: Kernel arguments that attach devices of the host, or replace ours.
HOST_ARGUMENTS = (
    r"(con|ssl|ubd|udb|vec|eth|mconsole|xterm|virtio_uml|exact)[0-9a-z._-]*=|time[-_]travel"
)


def before(path: str, text: str, added: str) -> Patch:
    return Patch(path, text, added + text)


def after(path: str, text: str, added: str) -> Patch:
    return Patch(path, text, text + added)


COMPILE = after("arch/um/kernel/Makefile", "obj-y += load_file.o\n", "obj-y += exact.o\n")
# --- random numbers
RANDOM_PATH = "drivers/char/random.c"
RANDOM = (
    before(RANDOM_PATH, "\nstatic void _get_random_bytes(void *buf", "\n#include <exact.h>\n"),
    before(
        RANDOM_PATH,
        "\tfirst_block_len = min_t(size_t, 32, len);\n",
        "\tif (exact_random(buf, len))\n\t\treturn;\n",
    ),
    before(
        RANDOM_PATH,
        "\t/*\n\t * Immediately overwrite the ChaCha key at index 4 with random\n",
        "\tif (exact_seeded)\n\t\treturn exact_random_user(iter);\n",
    ),
    Patch(RANDOM_PATH, "\tif  (!crng_ready()) {\t", "\tif (exact_seeded || !crng_ready()) {\t"),
)
# tmpfs draws a number for each new file and directory.  Of those, the guest's overlay copies up as
# many as the tree's path on the host has: they must not change the process's other numbers.
GENERATION_PATH = "mm/shmem.c"
GENERATIONS = (
    after(GENERATION_PATH, "#include <linux/fs.h>\n", "#include <exact.h>\n"),
    Patch(
        GENERATION_PATH,
        "->i_generation = get_random_u32();",
        "->i_generation = exact_seeded ? 0 : get_random_u32();",
    ),
)
TASK_PATH = "arch/um/include/asm/processor-generic.h"
TASKS = (
    before(TASK_PATH, "struct mm_struct;\n", "#include <exact.h>\n"),
    after(TASK_PATH, "\tstruct arch_thread arch;\n", "\tstruct exact_task exact;\n"),
    after(
        "arch/um/kernel/process.c",
        "\tp->thread = (struct thread_struct) INIT_THREAD;\n",
        "\texact_fork(p);\n",
    ),
    after("arch/um/kernel/exec.c", "\tclear_thread_flag(TIF_SINGLESTEP);\n", "\texact_exec();\n"),
)
# --- time
TIME_PATH = "arch/um/kernel/time.c"
TIME = (
    before(
        TIME_PATH,
        "static void time_travel_set_time(unsigned long long ns)\n",
        """#include <exact.h>

unsigned long long exact_now(void)
{
	return time_travel_start + time_travel_time;
}
EXPORT_SYMBOL_GPL(exact_now);

""",
    ),
    before(TIME_PATH, "\ttime_travel_update_time(next, true);\n", "\texact_idle();\n"),
    Patch(
        TIME_PATH,
        "\t\t    !time_travel_ext_waiting)\n",
        "\t\t    !time_travel_ext_waiting && !exact_seeded)\n",
    ),
    Patch(
        "arch/um/kernel/skas/syscall.c",
        "if (IS_ERR_VALUE(ret) &&\n",
        "if (exact_waits(syscall, ret) &&\n",
    ),
    before(
        "arch/um/kernel/trap.c",
        "\tif (UPT_IS_USER(regs) && !SEGV_IS_FIXABLE(fi)) {\n\t\tshow_segv_info(regs);\n",
        "\tif (UPT_IS_USER(regs) && !SEGV_IS_FIXABLE(fi) && exact_tsc(regs))\n\t\treturn;\n",
    ),
)
# The clock has a tick of 1 ns, and timers expire on time.  Otherwise when a process wakes would
# depend on which timers others have set shortly before.
TICK = Patch(
    "arch/um/include/linux/time-internal.h",
    "#define TIMER_MULTIPLIER 256\n",
    "#include <exact.h>\n#define TIMER_MULTIPLIER (exact_seeded ? 1 : 256)\n",
)


def timers_on_time(device: str) -> Patch:
    return before(
        TIME_PATH,
        f"\tclockevents_register_device({device});\n",
        f"""	if (exact_seeded) {{
		({device})->min_delta_ns = 1;
		({device})->min_delta_ticks = 1;
	}}
""",
    )


STUB_PATH = "arch/um/os-Linux/skas/process.c"
HIDE_TSC = """	/* The time stamp counter is the host's clock: let it fault. */
	if (exact_seeded)
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
"""
STUB_INCLUDES = after(
    STUB_PATH, "#include <sys/wait.h>\n", "#include <sys/prctl.h>\n#include <exact.h>\n"
)
STUB_TRACED = (STUB_INCLUDES, before(STUB_PATH, "\tptrace(PTRACE_TRACEME, 0, 0, 0);\n", HIDE_TSC))
STUB_EXECUTED = (STUB_INCLUDES, before(STUB_PATH, "\t/* Raw execveat for compat", HIDE_TSC))
# --- files of the host
FILES_PATH = "fs/hostfs/hostfs_user.c"
REFUSE = f"""/* Files that hold the host's state, and so its clock. */
static int changes_by_itself(int fd)
{{
	struct statfs64 fs;

	if (!exact_seeded || fstatfs64(fd, &fs) < 0)
		return 0;
	switch (fs.f_type) {{
	case 0x9fa0: /* proc */
	case 0x62656572: /* sysfs */
	case 0x27e0eb: /* cgroup */
	case 0x63677270: /* cgroup2 */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
		os_warn("{MARK}the guest opened a file of the host's kernel\\n");
		return 1;
	}}
	return 0;
}}

"""
# hostfs has no nanoseconds of its own: they are read from the host's answer, since a file may be
# written in the second in which the machine started.
SAME_TIMES = """	if (exact_file_time(&p->mtime.tv_sec, buf->%s)) {
		p->mtime.tv_nsec = 0;
		p->atime = p->mtime;
		p->ctime = p->mtime;
	}
"""
HOST_FILES = (
    after(FILES_PATH, '#include "hostfs.h"\n', "#include <os.h>\n#include <exact.h>\n"),
    before(FILES_PATH, "int open_file(char *path, int r, int w, int append)\n", REFUSE),
    Patch(
        FILES_PATH,
        """	fd = open64(path, mode);
	if (fd < 0)
		return -errno;
""",
        """	fd = open64(path, mode);
	if (fd < 0)
		return -errno;
	if (changes_by_itself(fd)) {
		close(fd);
		return -EACCES;
	}
""",
    ),
)
# --- the guest's output.  Each time that the host has read some of it, it sends a signal, for an
# interrupt.  In virtual time the kernel waits for the host instead, as Linux 6.12 does by itself.
OUTPUT_PATH = "arch/um/drivers/chan_kern.c"
OUTPUT = (
    before(
        OUTPUT_PATH,
        "static int open_one_chan(struct chan *chan)\n",
        """#include <timetravel.h>

static bool chan_waits(const struct chan *chan)
{
	return time_travel_mode == TT_MODE_INFCPU && chan->output && !chan->input;
}

""",
    ),
    Patch(OUTPUT_PATH, "os_set_fd_block(fd, 0)", "os_set_fd_block(fd, chan_waits(chan))"),
    Patch(
        OUTPUT_PATH,
        "\t\tif (chan->enabled)\n\t\t\tcontinue;",
        "\t\tif (chan->enabled || chan_waits(chan))\n\t\t\tcontinue;",
    ),
)
OUTPUT_WHOLE_NEW = """	do {
		n = chan->ops->write(%(fd)s, buf + ret, len - ret, chan->data);
		if (n > 0)
			ret += n;
	} while (n > 0 && ret < len);
	if (n < 0 && ret == 0)
		ret = n;
	return chan->primary ? ret : 0;
"""
OUTPUT_WHOLE = """	n = chan->ops->write(%(fd)s, buf, len, chan->data);
	if (chan->primary) {
		ret = n;
	}
	return ret;
"""


def whole_output(descriptor: str) -> Patch:
    """Write all of the output: a signal may end a write(2) early."""
    names = {"fd": f"chan->{descriptor}"}
    return Patch(OUTPUT_PATH, OUTPUT_WHOLE % names, OUTPUT_WHOLE_NEW % names)


def patches(series: str) -> tuple[Patch, ...]:
    """The patches of that kernel."""
    old = series == "6.1"
    field = "st_blksize" if old else "stx_blksize"
    nanoseconds = "st_mtim.tv_nsec" if old else "stx_mtime.tv_nsec"
    times = before(FILES_PATH, f"\tp->blksize = buf->{field};\n", SAME_TIMES % nanoseconds)
    return (
        COMPILE,
        *RANDOM,
        *GENERATIONS,
        *TASKS,
        *TIME,
        TICK,
        timers_on_time("evt" if series == "7.2" else "&timer_clockevent"),
        *(STUB_EXECUTED if series == "7.2" else STUB_TRACED),
        *HOST_FILES,
        times,
        *(OUTPUT if old else ()),
        whole_output("fd" if old else "fd_out"),
    )


def files() -> dict[str, str]:
    """The files to add to the kernel's tree: path -> content."""
    return {path: (SOURCES / name).read_text() for name, path in FILES.items()}


def arguments(seed: int) -> list[str]:
    """The kernel's arguments for a run that SEED decides."""
    return [f"exact={seed}", f"time-travel-start={start_ns(seed)}"]


def check_appended(arguments: list[str]) -> None:
    """NotRepeatableError if one of the appended kernel ARGUMENTS lets the host take part."""
    for word in " ".join(arguments).split():
        if re.match(HOST_ARGUMENTS, word.lstrip('"')):  # the kernel removes quotes
            raise NotRepeatableError(
                f"{MARK}--append {word}: attaches the guest to the host, or changes its time;"
                " --engine native allows that"
            )


def start_ns(seed: int) -> int:
    """When the guest's clock starts: within a second, another time for each seed."""
    return START_NS + seed * 0x9E3779B97F4A7C15 % 2**64 % 10**9
