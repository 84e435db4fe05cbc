/* ------------------------------------------------------------------------------- the host ---- */

static uint8_t *memory;
static uint32_t next_table = TABLES, next_page = IMAGE;
static int vm, vcpus[MOST_CPUS + 1], run_size;
static pthread_t threads[MOST_CPUS];
static pid_t thread_ids[MOST_CPUS];
static int places[MOST_CPUS + 1];	/* processors of vCPUs, and behind them a free one */
static int has_free;
static volatile int save_wanted;
static volatile int lost_vector, lost_cpu;
static __thread struct kvm_run *own_run;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

static int call(int file, unsigned long request, void *argument, const char *name)
{
	int result = ioctl(file, request, argument);
	if (result < 0)
		die("%s: %s", name, strerror(errno));
	return result;
}
#define CALL(file, request, argument) call(file, request, (void *)(argument), #request)

static uint64_t *table_entry(uint64_t *table, uint64_t linear, int shift)
{
	return &table[linear >> shift & 511];
}

static void map(uint64_t linear, uint64_t physical, uint64_t flags)
{
	uint64_t *table = (uint64_t *)(memory + TABLES);
	for (int shift = 39; shift > 12; shift -= 9) {
		uint64_t *entry = table_entry(table, linear, shift);
		if (!*entry) {
			next_table += 4096;
			*entry = next_table | 3;
		}
		table = (uint64_t *)(memory + (*entry & ~0xFFFull));
	}
	*table_entry(table, linear, 12) = physical | flags | 3;
}

/* A copy of this program's pages, at the same addresses. */
static void load_image(void)
{
	char line[512], name[256] = "", path[256];
	unsigned long start, end;
	FILE *maps = fopen("/proc/self/maps", "r");
	int file = open("/proc/self/mem", O_RDONLY);

	if (!maps || file < 0 || readlink("/proc/self/exe", name, sizeof name - 1) < 0)
		die("/proc/self: %s", strerror(errno));
	while (fgets(line, sizeof line, maps)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %255[^\n]", &start, &end, path) < 2)
			continue;
		for (; !strcmp(path, name) && start < end; start += 4096, next_page += 4096) {
			if (next_page >= MEMORY)
				die("this program is too long for its guest");
			if (pread(file, memory + next_page, 4096, start) == 4096)
				map(start, next_page, 0);
		}
	}
	fclose(maps);
	close(file);
}

/* On a stack of their own, since what is interrupted may use memory below its stack. */
static void set_gate(int vector, void *handler)
{
	uint64_t at = (uint64_t)handler, *gate = (uint64_t *)(memory + IDT + 16 * vector);
	gate[0] = (at & 0xFFFF) | 8 << 16 | 1ull << 32 | 0x8Eull << 40 | (at >> 16 & 0xFFFF) << 48;
	gate[1] = at >> 32;
}

static void make_memory(void)
{
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };
	uint64_t *gdt;

	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("memory: %s", strerror(errno));
	for (uint32_t page = 0; page < MEMORY; page += 4096)
		map(SEEN_AT + page, page, 0);
	map(APIC_PAGE, APIC_PAGE, 1 << 4);
	load_image();
	gdt = (uint64_t *)(memory + GDT);
	gdt[1] = 0x00AF9B000000FFFFull;
	gdt[2] = 0x00CF93000000FFFFull;
	for (int vector = 0; vector < 256; vector++)
		set_gate(vector, vector < 32 ? gate_exception : gate_spurious);
	set_gate(0xE1, gate_0xE1);
	set_gate(0xE4, gate_0xE4);
	set_gate(0xEB, gate_0xEB);
	set_gate(0x75, gate_0x75);
	region.userspace_addr = (uint64_t)memory;
	CALL(vm, KVM_SET_USER_MEMORY_REGION, &region);
}

static void set_cpuid(int kvm, int vcpu, uint32_t id)
{
	static struct { struct kvm_cpuid2 head; struct kvm_cpuid_entry2 entries[256]; } list;
	list.head.nent = 256;
	CALL(kvm, KVM_GET_SUPPORTED_CPUID, &list);
	for (uint32_t at = 0; at < list.head.nent; at++) {
		struct kvm_cpuid_entry2 *entry = &list.head.entries[at];
		if (entry->function == 1) {
			entry->ebx = (entry->ebx & 0xFFFF) | CPUS << 16 | id << 24;
			entry->ecx |= 1u << 24 | 1u << 31;
			entry->ecx = X2APIC ? entry->ecx | 1u << 21 : entry->ecx & ~(1u << 21);
		} else if (entry->function == 0xB) {
			entry->edx = id;
		}
	}
	CALL(vcpu, KVM_SET_CPUID2, &list);
}

static struct kvm_segment flat(uint16_t selector, int type, int is_long)
{
	return (struct kvm_segment){ .limit = 0xFFFFFFFF, .selector = selector, .type = type,
				     .present = 1, .db = !is_long, .s = 1, .l = is_long, .g = 1 };
}

static void start_at_main(int vcpu, uint32_t id)
{
	struct kvm_regs registers = { .rip = (uint64_t)guest_main, .rflags = 2, .rdi = id };
	struct kvm_mp_state runs = { .mp_state = KVM_MP_STATE_RUNNABLE };
	struct kvm_sregs special;
	uint64_t handlers;

	registers.rsp = SEEN_AT + STACKS + (id + 1) * STACK - 8;
	handlers = SEEN_AT + STACKS + id * STACK + STACK / 2;
	memcpy(memory + TASKS + id * TASK + 0x24, &handlers, sizeof handlers);
	CALL(vcpu, KVM_GET_SREGS, &special);
	special.tr = (struct kvm_segment){ .base = SEEN_AT + TASKS + id * TASK, .limit = 0x67,
					   .selector = 0x18, .type = 0xB, .present = 1 };
	special.cs = flat(8, 0xB, 1);
	special.ds = special.es = special.fs = special.gs = special.ss = flat(16, 0x3, 0);
	special.gdt.base = SEEN_AT + GDT;
	special.gdt.limit = 3 * 8 - 1;
	special.idt.base = SEEN_AT + IDT;
	special.idt.limit = 256 * 16 - 1;
	special.cr0 = 0x80000011;
	special.cr3 = TABLES;
	special.cr4 = 1 << 5;
	special.efer = 1 << 8 | 1 << 10;
	special.apic_base = APIC_PAGE | 1 << 11 | X2APIC << 10 | (id == 0) << 8;
	CALL(vcpu, KVM_SET_SREGS, &special);
	CALL(vcpu, KVM_SET_REGS, &registers);
	CALL(vcpu, KVM_SET_MP_STATE, &runs);
}

static void put(pid_t thread, int place)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(place, &set);
	if (sched_setaffinity(thread, sizeof set, &set) && errno != ESRCH)
		die("processor %d: %s", place, strerror(errno));
}

