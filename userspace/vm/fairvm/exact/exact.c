// SPDX-License-Identifier: GPL-2.0
/*
 * Runs that repeat to the bit, for User-Mode Linux in virtual time
 * (scripts/vm --engine virtual). It is compiled into the kernel; exact.py has
 * the changes elsewhere in the kernel that call it.
 *
 * With `exact=SEED` on the command line, each source of chance is replaced by a
 * function of the seed and of what the guest itself has done:
 *
 * - Random numbers. The kernel has one stream for interrupts and one for its
 *   threads, and each process has one, so that one process more does not change
 *   the numbers of the others. A process keeps its stream from its exec: the key is
 *   a hash of its arguments, and how many processes had the same ones before.
 *   A task that forks gives each child a stream of its own.
 * - The cost of processing. Elsewhere, in virtual time each reading of a clock
 *   takes 256 ns and each system call that fails 1 us, and how often they happen
 *   depends on what is installed. Here both cost nothing. Only a task that waits
 *   for time to pass by trying again and again would wait for ever: once it has
 *   read the clock or got EAGAIN or the like TRIES times since the CPU was last
 *   idle, each try costs 1 us; so does each system call after CALLS of them at
 *   one instant.
 * - The time stamp counter. Programs that execute RDTSC (the dynamic loader is
 *   one) get virtual time: the host delivers SIGSEGV to them (PR_SET_TSC).
 * - Times of files. Those modified since the machine started have the time at
 *   which the guest started.
 *
 * One CPU; nothing here is locked, except by disabling interrupts.
 */

#include <linux/errno.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <asm/unistd.h>
#include <sysdep/ptrace.h>
#include <shared/init.h>
#include <os.h>
#include <exact.h>

/* Tries that cost nothing, of one task between two idle times. */
#define TRIES 10000
/* System calls that cost nothing, of one task at one instant. */
#define CALLS 1000000
/* Octets of a program's arguments that choose its random numbers. */
#define ARGUMENTS 4096
/* Counters of programs with the same arguments: for as many different ones. */
#define PROGRAMS_BITS 16

int exact_seeded;
EXPORT_SYMBOL_GPL(exact_seeded);

static u64 seed;
static unsigned int period;
static struct exact_task interrupts, threads = { .key = 1 };
static struct program {
	u64 hash; /* of its arguments; 0: free */
	unsigned int runs;
} programs[1 << PROGRAMS_BITS];
/* When this machine started, by the host's clock [ns]. */
static u64 host_start;

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static u64 mix(u64 word)
{
	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
	return word ^ (word >> 31);
}

static int __init exact_param(char *text, int *add)
{
	char *end;

	/* Before the kernel's own start: this is the host's strtoull(). */
	seed = simple_strtoull(text, &end, 0);
	/* Consecutive seeds would exchange the streams of consecutive keys. */
	seed = mix(seed);
	exact_seeded = 1;
	host_start = os_persistent_clock_emulation();
	return 0;
}

__uml_setup("exact=", exact_param,
	    "exact=<seed>\n    Random numbers from this seed.\n\n");

/* A stream is splitmix64 from its key. */
static u64 draw(struct exact_task *stream)
{
	return mix(mix(seed ^ stream->key) +
		   ++stream->draws * 0x9e3779b97f4a7c15ULL);
}

/**
 * exact_random() - random octets for who asks for them
 * @buffer: where to write them
 * @length: how many
 *
 * Context: any.
 * Return: 1, or 0 if the numbers are not to come from a seed.
 */
int exact_random(void *buffer, unsigned long length)
{
	struct exact_task *stream;
	unsigned long flags;
	u64 word;

	if (!exact_seeded)
		return 0;
	if (!in_task())
		stream = &interrupts;
	else if (current->flags & PF_KTHREAD)
		stream = &threads;
	else
		stream = &current->thread.exact;
	local_irq_save(flags);
	while (length) {
		unsigned long part = min(length, sizeof(word));

		word = draw(stream);
		memcpy(buffer, &word, part);
		buffer += part;
		length -= part;
	}
	local_irq_restore(flags);
	return 1;
}

/**
 * exact_random_user() - fill what a process reads from the random device
 * @iter: where to write
 *
 * Context: process.
 * Return: the number of octets, or -EFAULT.
 */
long exact_random_user(struct iov_iter *iter)
{
	long done = 0;
	u8 block[64];

	while (iov_iter_count(iter)) {
		size_t part = min(iov_iter_count(iter), sizeof(block));
		size_t copied;

		exact_random(block, part);
		copied = copy_to_iter(block, part, iter);
		done += copied;
		/* Up to 256 octets are never interrupted: getrandom(2). */
		if (copied != part ||
		    (done % PAGE_SIZE == 0 && signal_pending(current)))
			break;
	}
	return done ? done : -EFAULT;
}

/**
 * exact_fork() - give a new task random numbers of its own
 * @child: the task, which does not run yet
 */
void exact_fork(struct task_struct *child)
{
	struct exact_task *parent = &current->thread.exact;

	memset(&child->thread.exact, 0, sizeof(child->thread.exact));
	child->thread.exact.key = mix(parent->key + ++parent->children);
}

/*
 * How many programs with these arguments ran before? Those with others do not
 * count, as the paths of directories that the host shares are arguments, too.
 */
static unsigned int count_run(u64 hash)
{
	unsigned int slot = hash_64(hash, PROGRAMS_BITS);
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(programs); n++) {
		struct program *program =
			&programs[(slot + n) % ARRAY_SIZE(programs)];

		if (!program->hash)
			program->hash = hash;
		if (program->hash == hash)
			return program->runs++;
	}
	return 0;
}

/**
 * exact_exec() - give a new program random numbers that its arguments choose
 *
 * Context: process, with the new program's memory in place.
 */
void exact_exec(void)
{
	struct exact_task *task = &current->thread.exact;
	unsigned long at = current->mm->arg_start;
	unsigned long end = min(current->mm->arg_end, at + ARGUMENTS);
	u64 hash = 0;
	u8 part[64];

	while (at < end) {
		size_t length = min(end - at, sizeof(part));
		size_t i;

		if (copy_from_user(part, (void __user *)at, length))
			break;
		for (i = 0; i < length; i++)
			hash = (hash ^ part[i]) * 0x100000001b3ULL;
		at += length;
	}
	/* Not consecutive: exact_fork() adds the number of a child. */
	task->key = mix(hash) + count_run(hash ?: 1) * 0x9e3779b97f4a7c15ULL;
	task->draws = 0;
	task->children = 0;
}

/**
 * exact_idle() - all tasks wait: tries count from zero again
 */
void exact_idle(void)
{
	period++;
}

/* Count a try; has the current task tried too often for time to stand still? */
static int retry(void)
{
	struct exact_task *task = &current->thread.exact;

	if (task->period != period) {
		task->period = period;
		task->tries = 0;
	}
	return ++task->tries > TRIES;
}

/**
 * exact_waits() - does a system call cost time, so that its caller moves on?
 * @number: of the call
 * @result: what it returns
 *
 * Return: 1 if it is one too many in a loop that waits for something.
 */
int exact_waits(long number, unsigned long result)
{
	struct exact_task *task = &current->thread.exact;
	unsigned long long now = exact_now();

	if (!exact_seeded)
		return IS_ERR_VALUE(result);
	if (task->instant != now) {
		task->instant = now;
		task->calls = 0;
	}
	if (++task->calls > CALLS)
		return 1;
	switch (number) {
	case __NR_clock_gettime:
	case __NR_gettimeofday:
	case __NR_time:
	case __NR_sched_yield:
		return retry();
	}
	switch ((long)result) {
	case -EAGAIN:
	case -EINTR:
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		return retry();
	}
	return 0;
}

/**
 * exact_tsc() - let a program that reads the time stamp counter read virtual time
 * @regs: the registers at its segmentation fault
 *
 * The counter's frequency is 1 GHz.
 *
 * Return: 1 if the fault was that.
 */
int exact_tsc(struct uml_pt_regs *regs)
{
	static const u8 rdtsc[] = { 0x0f, 0x31 },
			rdtscp[] = { 0x0f, 0x01, 0xf9 };
	u8 code[sizeof(rdtscp)] = {};
	unsigned long left;
	u64 now;

	if (!exact_seeded)
		return 0;
	/* The code may end at the end of a page, right behind RDTSC. */
	left = copy_from_user(code, (void __user *)UPT_IP(regs), sizeof(code));
	if (left <= 1 && !memcmp(code, rdtsc, sizeof(rdtsc))) {
		regs->gp[HOST_IP] += sizeof(rdtsc);
	} else if (!left && !memcmp(code, rdtscp, sizeof(rdtscp))) {
		regs->gp[HOST_IP] += sizeof(rdtscp);
		regs->gp[HOST_CX] = 0;
	} else {
		return 0;
	}
	if (retry())
		time_travel_ndelay(NSEC_PER_USEC);
	now = exact_now();
	regs->gp[HOST_AX] = lower_32_bits(now);
	regs->gp[HOST_DX] = upper_32_bits(now);
	return 1;
}

/**
 * exact_file_time() - hide the host's clock in the times of files
 * @seconds: a time since the epoch, by the host's clock; changed if it is later
 *           than the start of this machine
 * @nanoseconds: its fraction
 *
 * Return: 1 if files are to have this time only, whole seconds.
 */
int exact_file_time(long long *seconds, long long nanoseconds)
{
	static u64 guest_start;

	if (!exact_seeded)
		return 0;
	/* The first file is read before the guest's time has passed a second. */
	if (!guest_start)
		guest_start = exact_now() / NSEC_PER_SEC;
	if (*seconds * NSEC_PER_SEC + nanoseconds >= host_start)
		*seconds = guest_start;
	return 1;
}
