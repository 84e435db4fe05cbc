static void leave(int signal)
{
	(void)signal;
	if (own_run)
		own_run->immediate_exit = 1;
}

static void *run(void *argument)
{
	int index = (int)(intptr_t)argument;
	struct kvm_run *run = mmap(NULL, run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpus[index], 0);

	if (run == MAP_FAILED)
		die("kvm_run: %s", strerror(errno));
	own_run = run;
	put(0, places[index]);
	store(&thread_ids[index], (pid_t)syscall(SYS_gettid));
	for (;;) {
		if (save_wanted)
			be_saved(index);
		if (ioctl(vcpus[index], KVM_RUN, NULL) < 0) {
			run->immediate_exit = 0;
			if (errno == EINTR || errno == EAGAIN)
				continue;
			die("KVM_RUN of vCPU %d: %s", index, strerror(errno));
		}
		if (run->exit_reason == KVM_EXIT_IRQ_WINDOW_OPEN || run->exit_reason == KVM_EXIT_IOAPIC_EOI)
			continue;
		if (run->exit_reason != KVM_EXIT_IO || run->io.port == PORT_EXCEPTION)
			die("vCPU %d ended: exit %u", index, run->exit_reason);
		lost_cpu = index;
		lost_vector = *(uint32_t *)((uint8_t *)run + run->io.data_offset);
		for (;;)
			pause();
	}
}

static void find_places(void)
{
	cpu_set_t all;
	int count = 0;
	if (sched_getaffinity(0, sizeof all, &all))
		die("sched_getaffinity: %s", strerror(errno));
	for (int cpu = 0; cpu < CPU_SETSIZE && count <= CPUS; cpu++)
		if (CPU_ISSET(cpu, &all))
			places[count++] = cpu;
	has_free = count > CPUS;
	if (!has_free && MOVES)
		die("vCPUs are moved: that needs %d processors", CPUS + 1);
	for (int at = count; at < CPUS; at++)
		places[at] = places[at % count];
	if (count < CPUS)
		fprintf(stderr, "%d vCPUs share %d processors: some will be late for that alone\n", CPUS,
			count);
}

static void make_chip(void)
{
	struct kvm_enable_cap split = { .cap = KVM_CAP_SPLIT_IRQCHIP, .args = { 24 } };
	struct kvm_enable_cap poll = { .cap = KVM_CAP_HALT_POLL };
	struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };
	struct kvm_reinject_control control = { .pit_reinject = 0 };

	CALL(vm, KVM_SET_TSS_ADDR, 0xFFFBD000ul);
	if (!POLLS && ioctl(vm, KVM_ENABLE_CAP, &poll) < 0)
		fprintf(stderr, "vCPUs may poll before they sleep: load kvm with halt_poll_ns=0\n");
	if (!PIT) {
		CALL(vm, KVM_ENABLE_CAP, &split);
		return;
	}
	CALL(vm, KVM_CREATE_IRQCHIP, 0);
	CALL(vm, KVM_CREATE_PIT2, &pit);
	if (!REINJECTS)
		CALL(vm, KVM_REINJECT_CONTROL, &control);
}

/* Prints what came late since the last time. */
static void tell(struct shared *shared, uint64_t *told)
{
	for (; *told < EVENTS && load(&shared->event[*told].is_there); ++*told) {
		struct event *event = &shared->event[*told];
		printf("vCPU %lu %s: vector 0x%lx, sent by ICR 0x%lx, waited for %lu us\n", event->cpu,
		       event->asleep ? "slept on" : "did not take it while it ran", event->vector,
		       event->command, event->cycles * 1000 / shared->tsc_khz);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = leave };
	long seconds = argc > 1 ? strtol(argv[1], NULL, 0) : 10, late = argc > 2 ? atol(argv[2]) : LATE;
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	uint64_t told = 0, sum = 0, woken = 0, rounds = 0, still = 0, events;
	struct shared *shared;

	if (kvm < 0)
		die("/dev/kvm: %s", strerror(errno));
	if (seconds <= 0 || late <= 0)
		die("usage: %s [SECONDS [LATE]]: LATE in microseconds", argv[0]);
	find_places();
	run_size = CALL(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	vm = CALL(kvm, KVM_CREATE_VM, 0);
	make_chip();
	make_memory();
	for (int index = 0; index < CPUS; index++) {
		vcpus[index] = CALL(vm, KVM_CREATE_VCPU, (intptr_t)index);
		set_cpuid(kvm, vcpus[index], index);
		start_at_main(vcpus[index], index);
	}
	shared = (struct shared *)(memory + SHARED);
	shared->tsc_khz = CALL(vcpus[0], KVM_GET_TSC_KHZ, 0);
	shared->late = late * shared->tsc_khz / 1000;
	shared->patience = 20 * shared->tsc_khz;
	sigaction(SIGUSR1, &action, NULL);
	prepare_changes();
	for (int index = 0; index < CPUS; index++)
		if (pthread_create(&threads[index], NULL, run, (void *)(intptr_t)index))
			die("no thread");
	begin_changes();
	printf("%d vCPUs in %s mode for %ld s; late is what waits for more than %ld us\n", CPUS,
	       X2APIC ? "x2APIC" : "xAPIC", seconds, late);
	for (long tenth = 0; tenth < 10 * seconds && !lost_vector && still < 20; tenth++) {
		uint64_t before = rounds;
		usleep(100000);
		tell(shared, &told);
		rounds = load(&shared->cpu[0].rounds);
		still = rounds == before ? still + 1 : 0;
	}
	events = load(&shared->events);
	for (int index = 0; index < CPUS; index++) {
		sum += load(&shared->cpu[index].arrivals);
		woken += load(&shared->cpu[index].woken);
	}
	if (lost_vector)
		printf("LOST: vector 0x%x never came to vCPU %d\n", lost_vector, lost_cpu);
	if (still >= 20)
		printf("vCPU 0 has not gone on for 2 s\n");
	printf("%lu interrupts, %lu halts ended; %lu came late%s\n", sum, woken, events,
	       events > EVENTS ? ", of which the first are told" : "");
	fflush(stdout);
	_exit(lost_vector || still >= 20 || events ? 1 : 0);
}
