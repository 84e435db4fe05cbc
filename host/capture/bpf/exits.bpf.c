// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
//
// Counts VM exits in the kernel: kvm_exit opens, kvm_entry closes, what happens between says what
// the exit was about. One map row per process, thread, reason and detail; times in nanoseconds.
//
// Field offsets are not compiled in: the loader reads them from the running kernel's tracefs and
// patches the constants below, so that the object needs no BTF and works where kvm is a module.
// Build: build.sh; the object is committed, so that an ordinary build needs no clang.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define OCTAVES 40
#define UNKNOWN 0

struct bpf_map_def {
	u32 type;
	u32 key_size;
	u32 value_size;
	u32 max_entries;
	u32 map_flags;
};

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_PERCPU_HASH 5
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_ANY 0

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static u64 (*pid_tgid)(void) = (void *)14;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

// Patched before loading.
const volatile u32 OFFSET_EXIT_REASON = 8;
const volatile u32 OFFSET_EXIT_ISA = 24;
const volatile u32 OFFSET_EXIT_INFO1 = 32;
const volatile u32 OFFSET_EXIT_INFO2 = 40;
const volatile u32 OFFSET_ENTRY_VCPU = 8;
const volatile u32 OFFSET_MSR_WRITE = 8;
const volatile u32 OFFSET_MSR_INDEX = 12;
const volatile u32 OFFSET_MSR_DATA = 16;
const volatile u32 ONLY_PROCESS = 0;

struct opened {
	u64 at;
	u32 reason;
	u32 isa;
	u64 info1;
	u64 info2;
	// 0, or 1 + write in the upper half and the MSR below, with the data beside it.
	u64 msr;
	u64 data;
};

struct row {
	u32 process;
	u32 thread;
	u32 reason;
	u32 isa_and_vcpu;
	u64 detail;
	u64 data;
};

struct sums {
	u64 count;
	u64 time;
	// Sum of squares of 1024 ns.
	u64 squares;
	u64 least;
	u64 most;
	u64 octaves[OCTAVES];
};

struct bpf_map_def SEC("maps") OPENED = {
	BPF_MAP_TYPE_HASH, sizeof(u32), sizeof(struct opened), 16384, 0,
};
struct bpf_map_def SEC("maps") ROWS = {
	BPF_MAP_TYPE_PERCPU_HASH, sizeof(struct row), sizeof(struct sums), 8192, 0,
};
// A zeroed row to begin with: too large for the stack.
struct bpf_map_def SEC("maps") ZERO = {
	BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(u32), sizeof(struct sums), 1, 0,
};

static __attribute__((always_inline)) u32 word(const void *context, u32 offset)
{
	u32 value = 0;
	probe_read_kernel(&value, sizeof(value), context + offset);
	return value;
}

static __attribute__((always_inline)) u64 wide(const void *context, u32 offset)
{
	u64 value = 0;
	if (offset)
		probe_read_kernel(&value, sizeof(value), context + offset);
	return value;
}

SEC("tracepoint/kvm/kvm_exit")
int on_exit(void *context)
{
	u64 ids = pid_tgid();
	u32 thread = ids;
	struct opened opened = {};

	if (ONLY_PROCESS && ONLY_PROCESS != ids >> 32)
		return 0;
	opened.at = ktime_ns();
	opened.reason = word(context, OFFSET_EXIT_REASON);
	opened.isa = word(context, OFFSET_EXIT_ISA);
	opened.info1 = wide(context, OFFSET_EXIT_INFO1);
	opened.info2 = wide(context, OFFSET_EXIT_INFO2);
	map_update(&OPENED, &thread, &opened, BPF_ANY);
	return 0;
}

SEC("tracepoint/kvm/kvm_msr")
int on_msr(void *context)
{
	u32 thread = pid_tgid();
	struct opened *opened = map_lookup(&OPENED, &thread);

	if (opened && !opened->msr) {
		u64 write = word(context, OFFSET_MSR_WRITE) ? 1 : 0;
		opened->msr = (1 + write) << 32 | word(context, OFFSET_MSR_INDEX);
		opened->data = wide(context, OFFSET_MSR_DATA);
	}
	return 0;
}

static __attribute__((always_inline)) u32 octave(u64 value)
{
	u32 bits = 0;
	if (value >> 32) { value >>= 32; bits += 32; }
	if (value >> 16) { value >>= 16; bits += 16; }
	if (value >> 8) { value >>= 8; bits += 8; }
	if (value >> 4) { value >>= 4; bits += 4; }
	if (value >> 2) { value >>= 2; bits += 2; }
	if (value >> 1) { bits += 1; }
	return bits < OCTAVES ? bits : OCTAVES - 1;
}

// The few bits of an exit's information that tell what it was about; an address in full would
// make a row of its own for every page.
static __attribute__((always_inline)) u64 about(const struct opened *opened)
{
	if (opened->isa == 2) {
		if (opened->reason == 0x400 && (opened->info2 & ~0xfffULL) == 0xfee00000)
			return 3ULL << 60 | (opened->info1 & 2) << 31 | (opened->info2 & 0xff0);
		if (opened->reason == 0x401)
			return 4ULL << 60 | opened->info2 >> 32;
		if (opened->reason == 0x402)
			return 3ULL << 60 | (opened->info1 & 1ULL << 32) | (opened->info1 & 0xff0);
	} else if (opened->isa == 1) {
		if (opened->reason == 56)
			return 3ULL << 60 | 1ULL << 32 | (opened->info1 & 0xff0);
		if (opened->reason == 44)
			return 3ULL << 60 | (opened->info1 >> 12 & 1) << 32 | (opened->info1 & 0xff0);
	}
	return UNKNOWN;
}

SEC("tracepoint/kvm/kvm_entry")
int on_entry(void *context)
{
	u64 ids = pid_tgid();
	u32 thread = ids, zero = 0;
	struct opened *opened = map_lookup(&OPENED, &thread);
	struct row row = {};
	struct sums *sums;
	u64 time;

	if (!opened)
		return 0;
	time = ktime_ns() - opened->at;
	row.process = ids >> 32;
	row.thread = thread;
	row.reason = opened->reason;
	row.isa_and_vcpu = opened->isa << 24 | (word(context, OFFSET_ENTRY_VCPU) & 0xffffff);
	row.detail = opened->msr ? opened->msr : about(opened);
	// Of an interrupt command only its kind, not its vector and target.
	if ((u32)opened->msr == 0x830)
		row.data = opened->data & 0xc8f00;
	map_delete(&OPENED, &thread);
	sums = map_lookup(&ROWS, &row);
	if (!sums) {
		struct sums *empty = map_lookup(&ZERO, &zero);
		if (!empty)
			return 0;
		map_update(&ROWS, &row, empty, BPF_ANY);
		sums = map_lookup(&ROWS, &row);
		if (!sums)
			return 0;
	}
	sums->count += 1;
	sums->time += time;
	sums->squares += (time >> 10) * (time >> 10);
	if (!sums->least || time < sums->least)
		sums->least = time ? time : 1;
	if (time > sums->most)
		sums->most = time;
	u32 index = octave(time);
	if (index < OCTAVES)
		sums->octaves[index] += 1;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
