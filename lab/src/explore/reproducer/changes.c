/* ---------------------------------------------------------------------- what the host changes ---- */

/* At times that numbers choose, by one thread, on the processor that no vCPU has if there is one. */

#define SINT0 0x40000090u
#define AUTO_EOI_OF_0xE8 (1ull << 17 | 0xE8)
#define MASKED (1ull << 16)
#define OTHER_ID 0xFE

static uint64_t choices = SEED | 1ull << 63;
static struct kvm_lapic_state spare_before;
static pthread_barrier_t meeting;
static int come, is_inhibited;

static void write_msr(int vcpu, uint32_t index, uint64_t value)
{
	struct { struct kvm_msrs head; struct kvm_msr_entry entry; } list = {
		{ .nmsrs = 1 }, { .index = index, .data = value }
	};
	if (CALL(vcpu, KVM_SET_MSRS, &list) != 1)
		die("KVM_SET_MSRS: %x is refused", index);
}

/* By a vCPU that the guest knows nothing of, or by KVM's timer. */
static void flip(void)
{
	int spare = vcpus[CPUS];
	struct kvm_guest_debug debug = { .control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_BLOCKIRQ };
	struct kvm_reinject_control control = { .pit_reinject = !is_inhibited };
	struct kvm_lapic_state apic = spare_before;

	is_inhibited = !is_inhibited;
	if (FLIP == AUTO_EOI) {
		write_msr(spare, SINT0, is_inhibited ? AUTO_EOI_OF_0xE8 : MASKED);
	} else if (FLIP == BLOCK_IRQ) {
		if (!is_inhibited)
			debug.control = 0;
		CALL(spare, KVM_SET_GUEST_DEBUG, &debug);
	} else if (FLIP == OTHER_APIC_ID) {
		if (is_inhibited)
			apic.regs[ID + 3] = (char)OTHER_ID;
		CALL(spare, KVM_SET_LAPIC, &apic);
	} else {
		CALL(vm, KVM_REINJECT_CONTROL, &control);
	}
}

/* A vCPU to the free processor, and this thread to the one that it leaves. */
static void move(void)
{
	uint64_t index = below(&choices, CPUS);
	int left = places[index];

	put(thread_ids[index], places[CPUS]);
	places[index] = places[CPUS];
	places[CPUS] = left;
	put(0, left);
}

/* As an emulated device does; nobody has tickets for these. */
static void send_messages(void)
{
	static const uint8_t COUNTS[4] = { 1, 2, 8, 32 };
	for (int count = COUNTS[below(&choices, 4)]; count; count--) {
		struct kvm_msi message = { .address_lo = APIC_PAGE | below(&choices, CPUS) << 12,
					   .data = VECTORS[below(&choices, KINDS)] };
		CALL(vm, KVM_SIGNAL_MSI, &message);
	}
}

/* A vCPU's thread: none writes before all have read. */
static void be_saved(int index)
{
	struct kvm_mp_state runs;
	struct kvm_lapic_state apic;
	struct kvm_vcpu_events events;

	__atomic_fetch_add(&come, 1, __ATOMIC_SEQ_CST);
	pthread_barrier_wait(&meeting);
	CALL(vcpus[index], KVM_GET_MP_STATE, &runs);
	CALL(vcpus[index], KVM_GET_LAPIC, &apic);
	CALL(vcpus[index], KVM_GET_VCPU_EVENTS, &events);
	pthread_barrier_wait(&meeting);
	CALL(vcpus[index], KVM_SET_MP_STATE, &runs);
	CALL(vcpus[index], KVM_SET_LAPIC, &apic);
	CALL(vcpus[index], KVM_SET_VCPU_EVENTS, &events);
	pthread_barrier_wait(&meeting);
}

static void save_all(void)
{
	save_wanted = 1;
	while (load(&come) < CPUS) {
		for (int index = 0; index < CPUS; index++)
			pthread_kill(threads[index], SIGUSR1);
		usleep(50);
	}
	pthread_barrier_wait(&meeting);
	pthread_barrier_wait(&meeting);
	save_wanted = 0;
	store(&come, 0);
	pthread_barrier_wait(&meeting);
}

__attribute__((noreturn)) static void *change(void *argument)
{
	void (*all[4])(void);
	int count = 0;

	(void)argument;
	if (FLIP)
		all[count++] = flip;
	if (MOVES)
		all[count++] = move;
	if (SENDS)
		all[count++] = send_messages;
	if (SAVES)
		all[count++] = save_all;
	for (int index = 0; index < CPUS; index++)
		while (!load(&thread_ids[index]))
			usleep(100);
	if (has_free)
		put(0, places[CPUS]);
	for (;;) {
		uint64_t exponent = 4 + below(&choices, 6);
		usleep((1 << exponent) + below(&choices, 1 << exponent));
		all[below(&choices, count)]();
	}
}

static void prepare_changes(void)
{
	struct kvm_enable_cap synic = { .cap = KVM_CAP_HYPERV_SYNIC };

	pthread_barrier_init(&meeting, NULL, CPUS + 1);
	if (!FLIP || FLIP == PIT_REINJECTS)
		return;
	vcpus[CPUS] = CALL(vm, KVM_CREATE_VCPU, (intptr_t)CPUS);
	if (FLIP == AUTO_EOI)
		CALL(vcpus[CPUS], KVM_ENABLE_CAP, &synic);
	CALL(vcpus[CPUS], KVM_GET_LAPIC, &spare_before);
}

static void begin_changes(void)
{
	pthread_t thread;
	if ((FLIP || MOVES || SENDS || SAVES) && pthread_create(&thread, NULL, change, NULL))
		die("no thread");
}

