/*
 * The guest is part of this program: it runs at the same addresses, on a copy of the program's
 * pages. Its processors send each other interrupts, halt, hold interrupts back and start timers.
 * Who sends takes a ticket before and hands it in, with the time, when the command is done; a
 * handler has served what was taken by its beginning, and sees for how long the oldest of it has
 * waited while nothing held it back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NO_FLIP, AUTO_EOI, BLOCK_IRQ, OTHER_APIC_ID, PIT_REINJECTS };

#define MOST_CPUS 64
_Static_assert(CPUS > 0 && CPUS <= MOST_CPUS, "1 to 64 vCPUs");
#define KINDS 4		/* vectors that are sent: three of one class, and one of a lower one */
#define FLAT_CPUS 8	/* that one logical destination reaches */
#define TICKETS 16	/* of one kind and processor whose times are kept */
#define EVENTS 64	/* late interrupts that are kept */

/* The guest's physical memory, and where it sees all of it. */
#define SEEN_AT 0x200000000000ull
#define MEMORY (32u << 20)
#define GDT 0x1000u
#define IDT 0x2000u
#define TASKS 0x4000u	/* task states, of TASK bytes each: where handlers' stacks are */
#define TASK 128u
#define SHARED 0x100000u
#define STACKS 0x400000u
#define STACK 0x4000u	/* of a processor; its handlers have the lower half */
#define TABLES 0x800000u
#define IMAGE 0x1000000u
#define APIC_PAGE 0xFEE00000ull

/* Ports by which the guest tells the host that it cannot go on. */
#define PORT_LOST 0xF00
#define PORT_EXCEPTION 0xF01

struct account {
	uint64_t taken, handed_in, served;
	struct { uint64_t ticket, at, command; } sent[TICKETS];
};

struct event { uint64_t cpu, vector, command, cycles, asleep, is_there; };

struct cpu {
	struct account accounts[KINDS];
	uint64_t arrivals, rounds, woken, is_halted, open_since, numbers;
};

struct shared {
	uint64_t tsc_khz, late, patience, events;
	struct event event[EVENTS];
	struct cpu cpu[MOST_CPUS];
};

static const uint8_t VECTORS[KINDS] = { 0xE1, 0xE4, 0xEB, 0x75 };

/* ------------------------------------------------------------------------------ the guest ---- */

#pragma GCC push_options
#pragma GCC optimize ("no-stack-protector", "no-tree-loop-distribute-patterns")
#pragma GCC target ("general-regs-only")

#define S ((struct shared *)(SEEN_AT + SHARED))
#define load(place) __atomic_load_n(place, __ATOMIC_SEQ_CST)
#define store(place, value) __atomic_store_n(place, value, __ATOMIC_SEQ_CST)

enum { ID = 0x20, TPR = 0x80, EOI = 0xB0, LDR = 0xD0, SVR = 0xF0, ICR = 0x300, ICR_HIGH = 0x310,
       LVT_TIMER = 0x320, INITIAL_COUNT = 0x380, DIVIDE = 0x3E0, SELF_IPI = 0x3F0 };
#define LOGICAL 0x800u
#define ALL_BUT_SELF 0xC0000u

static inline uint64_t cycles(void)
{
	uint32_t low, high;
	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static inline void out(uint16_t port, uint32_t value)
{
	asm volatile("outl %0, %1" : : "a"(value), "d"(port));
}

static inline void apic_write(uint32_t at, uint64_t value)
{
#if X2APIC
	asm volatile("mfence; lfence; wrmsr" : : "c"(0x800 + at / 16), "a"((uint32_t)value),
		     "d"((uint32_t)(value >> 32)) : "memory");
#else
	asm volatile("movl %0, %1" : : "r"((uint32_t)value),
		     "m"(*(volatile uint32_t *)(APIC_PAGE + at)) : "memory");
#endif
}

static inline void command(uint32_t destination, uint32_t low)
{
#if X2APIC
	apic_write(ICR, (uint64_t)destination << 32 | low);
#else
	apic_write(ICR_HIGH, destination << 24);
	apic_write(ICR, low);
#endif
}

/* xorshift64*, which is never zero */
static uint64_t next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545F4914F6CDD1Dull) >> 16;
}

static uint64_t below(uint64_t *numbers, uint64_t bound) { return next(numbers) % bound; }

static void wait_cycles(uint64_t count)
{
	uint64_t start = cycles();
	while (cycles() - start < count)
		asm volatile("pause");
}

/* From 512 cycles to 2^18, each order of magnitude as often as any other. */
static uint64_t pause_of(uint64_t *numbers)
{
	uint64_t exponent = 9 + below(numbers, 9);
	return (1ull << exponent) + below(numbers, 1ull << exponent);
}

static void start_timer(uint64_t count)
{
	apic_write(LVT_TIMER, VECTORS[0]);
	/* KVM's timer counts nanoseconds. */
	apic_write(INITIAL_COUNT, count * 1000000 / S->tsc_khz + 1);
}

static void is_late(struct cpu *own, int kind, uint64_t command, uint64_t waited)
{
	uint64_t number = __atomic_fetch_add(&S->events, 1, __ATOMIC_SEQ_CST);
	struct event *event = &S->event[number % EVENTS];
	if (number >= EVENTS)
		return;
	event->cpu = own - S->cpu;
	event->vector = VECTORS[kind];
	event->command = command;
	event->cycles = waited;
	event->asleep = own->is_halted;
	store(&event->is_there, 1);
}

/* At the beginning of a handler. */
static void serve(struct cpu *own, int kind)
{
	struct account *account = &own->accounts[kind];
	uint64_t taken = load(&account->taken), now = cycles(), first = account->served + 1;
	uint64_t longest = 0, by = 0;

	if (taken >= TICKETS && first < taken - TICKETS + 1)
		first = taken - TICKETS + 1;
	for (uint64_t ticket = first; ticket <= taken; ticket++) {
		uint64_t at, sent_by = account->sent[ticket % TICKETS].command;
		if (load(&account->sent[ticket % TICKETS].ticket) != ticket)
			continue;	/* its command is not done, as far as its sender knows */
		at = account->sent[ticket % TICKETS].at;
		if (at < own->open_since)
			at = own->open_since;
		if (now > at && now - at > longest)
			longest = now - at, by = sent_by;
	}
	if (longest > S->late)
		is_late(own, kind, by, longest);
	store(&account->served, taken);
}

__attribute__((used)) static void on_interrupt(uint64_t vector)
{
	/* Whose stack it is. */
	struct cpu *own = &S->cpu[((uint64_t)__builtin_frame_address(0) - SEEN_AT - STACKS) / STACK];

	for (int kind = 0; kind < KINDS; kind++)
		if (VECTORS[kind] == vector)
			serve(own, kind);
	own->arrivals++;
	if (below(&own->numbers, 8) == 0)
		wait_cycles(pause_of(&own->numbers));
	store(&own->open_since, cycles());
	apic_write(EOI, 0);
}

__attribute__((used)) static void on_exception(void)
{
	for (;;)
		out(PORT_EXCEPTION, 0);
}

#define GATE(vector) "gate_" #vector ": pushq $" #vector "\njmp common\n"
asm(".text\n"
    GATE(0xE1) GATE(0xE4) GATE(0xEB) GATE(0x75)
    "gate_spurious: iretq\n"
    "gate_exception: call on_exception\n"
    "common: pushq %rax; pushq %rcx; pushq %rdx; pushq %rsi; pushq %rdi\n"
    "pushq %r8; pushq %r9; pushq %r10; pushq %r11; cld\n"
    "movq 72(%rsp), %rdi; subq $8, %rsp; call on_interrupt; addq $8, %rsp\n"
    "popq %r11; popq %r10; popq %r9; popq %r8\n"
    "popq %rdi; popq %rsi; popq %rdx; popq %rcx; popq %rax\n"
    "addq $8, %rsp; iretq\n");
extern char gate_0xE1[], gate_0xE4[], gate_0xEB[], gate_0x75[], gate_spurious[], gate_exception[];

/* Nobody halts with interrupts held back; what is there by now is seen before. */
static void halt_once(struct cpu *own, uint64_t seen)
{
	asm volatile("cli" : : : "memory");
	if (own->arrivals != seen) {
		asm volatile("sti" : : : "memory");
		return;
	}
	store(&own->is_halted, 1);
	asm volatile("sti; hlt" : : : "memory");
	store(&own->is_halted, 0);
	own->woken++;
}

/* Whether something that was sent to this processor, and that nothing holds back, never comes. */
static void audit(struct cpu *own)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct account *account = &own->accounts[kind];
		uint64_t sent = load(&account->handed_in), start = cycles();
		while (load(&account->served) < sent)
			if (cycles() - start > S->patience)
				for (;;)
					out(PORT_LOST, VECTORS[kind]);
	}
}

/* To the processors whose bits are set. */
static void send(int kind, uint64_t targets, uint32_t destination, uint32_t low)
{
	uint64_t tickets[MOST_CPUS], rest;

	for (rest = targets; rest; rest &= rest - 1) {
		int cpu = __builtin_ctzll(rest);
		struct account *account = &S->cpu[cpu].accounts[kind];
		tickets[cpu] = __atomic_add_fetch(&account->taken, 1, __ATOMIC_SEQ_CST);
	}
#if X2APIC
	if (low == ~0u)
		apic_write(SELF_IPI, VECTORS[kind]);
	else
#endif
		command(destination, low | VECTORS[kind]);
	for (rest = targets; rest; rest &= rest - 1) {
		int cpu = __builtin_ctzll(rest);
		struct account *account = &S->cpu[cpu].accounts[kind];
		uint64_t ticket = tickets[cpu], before = load(&account->handed_in);
		account->sent[ticket % TICKETS].at = cycles();
		account->sent[ticket % TICKETS].command = (uint64_t)destination << 32 | low | VECTORS[kind];
		store(&account->sent[ticket % TICKETS].ticket, ticket);
		while (before < ticket &&
		       !__atomic_compare_exchange_n(&account->handed_in, &before, ticket, 0,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
	}
}

/* To one or two, perhaps the same, and now and then to one beside them who is not there. */
static int send_logically(int kind, uint64_t one, uint64_t other, uint64_t *numbers)
{
	uint64_t targets = 1ull << one;
	uint32_t destination = 1u << one % 16;

	if (!X2APIC && CPUS > FLAT_CPUS)
		return 0;
	if (one / 16 == other / 16 && CPUS <= FLAT_CPUS) {
		targets |= 1ull << other;
		destination |= 1u << other % 16;
	}
	if (below(numbers, 8) == 0 && CPUS < FLAT_CPUS)
		destination |= 1u << (FLAT_CPUS - 1);
	if (X2APIC)
		destination |= one / 16 << 16;
	send(kind, targets, destination, LOGICAL);
	return 1;
}

static void send_somehow(uint64_t own, uint64_t *numbers)
{
	int kind = below(numbers, KINDS);
	uint64_t target = below(numbers, CPUS), second = below(numbers, CPUS);
	uint64_t way = below(numbers, 16), all = CPUS < 64 ? (1ull << CPUS % 64) - 1 : ~0ull;

	if (way >= 6 && way < 12 && send_logically(kind, target, second, numbers))
		return;
	if (way < 12)
		send(kind, 1ull << target, target, 0);
	else if (way < 14)
		send(kind, all & ~(1ull << own), 0, ALL_BUT_SELF);
	else if (way == 14 && X2APIC)
		send(kind, 1ull << own, 0, ~0u);
	else
		send(kind, 1ull << own, own, 0);
}

/* Some or none are delivered for a while, a few times, by either way to say so. */
static void raise_priority(struct cpu *own, uint64_t *numbers)
{
	static const uint8_t TIMES[4] = { 1, 1, 4, 16 };
	for (uint64_t times = TIMES[below(numbers, 4)]; times; times--) {
		uint64_t priority = below(numbers, 2) ? 0xF0 : 0x70, by_register = below(numbers, 2);
		if (by_register)
			asm volatile("movq %0, %%cr8" : : "r"(priority >> 4) : "memory");
		else
			apic_write(TPR, priority);
		wait_cycles(pause_of(numbers));
		store(&own->open_since, cycles());
		if (by_register)
			asm volatile("movq %0, %%cr8" : : "r"(0ull) : "memory");
		else
			apic_write(TPR, 0);
		audit(own);
	}
}

/* Halts until a timer comes, whatever comes before it: who was not woken sleeps on meanwhile. */
static void be_silent(struct cpu *own, uint64_t *numbers)
{
	uint64_t start = cycles(), length = (1 << 21) + below(numbers, 1 << 21);
	start_timer(length);
	while (cycles() - start < length - length / 8)
		halt_once(own, own->arrivals);
}

static void hold_back(struct cpu *own, uint64_t *numbers)
{
	asm volatile("cli" : : : "memory");
	wait_cycles(pause_of(numbers));
	store(&own->open_since, cycles());
	asm volatile("sti" : : : "memory");
}

__attribute__((noreturn)) static void guest_main(uint64_t index)
{
	struct cpu *own = &S->cpu[index];
	uint64_t numbers = (SEED ^ (index + 1) * 0x9E3779B9ull) | 1ull << 63, seen;

	own->numbers = next(&numbers) | 1;
	apic_write(SVR, 0x1FF);
#if !X2APIC
	if (CPUS <= FLAT_CPUS)
		apic_write(LDR, 1u << index << 24);
#endif
	apic_write(DIVIDE, 0xB);
	asm volatile("sti" : : : "memory");
	seen = own->arrivals;
	for (;;) {
		uint64_t what;
		store(&own->rounds, own->rounds + 1);
		audit(own);
		/* The first never waits for the others: when all of them halt, it wakes them. */
		if (index == 0) {
			if (below(&numbers, 12) == 0) {
				be_silent(own, &numbers);
			} else {
				send_somehow(index, &numbers);
				wait_cycles(pause_of(&numbers));
			}
			continue;
		}
		what = below(&numbers, 16);
		if (what < 8)
			halt_once(own, seen);
		else if (what < 12)
			send_somehow(index, &numbers);
		else if (what == 12)
			start_timer(pause_of(&numbers));
		else if (what < 15)
			raise_priority(own, &numbers);
		else
			hold_back(own, &numbers);
		seen = own->arrivals;
		if (below(&numbers, 4))
			wait_cycles(pause_of(&numbers));
	}
}

#pragma GCC pop_options

