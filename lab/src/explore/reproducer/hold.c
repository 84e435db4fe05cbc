/*
 * Holds a processor up now and then where the finding's was held: by a probe at the instruction,
 * with interrupts disabled, as an SMI would. To widen the window on a real machine:
 *
 *	make modules && insmod hold.ko one_in=64
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/utsname.h>

static uint one_in = 64;
module_param(one_in, uint, 0644);
MODULE_PARM_DESC(one_in, "of so many passes one is held, on average");

static uint percent = 100;
module_param(percent, uint, 0644);
MODULE_PARM_DESC(percent, "how long, of what the finding's processor was held");

static atomic_t held = ATOMIC_INIT(0);

struct place {
	const char *symbol;
	unsigned int offset;
	unsigned int nanoseconds;
	struct kprobe probe;
	bool is_there;
};

static struct place places[] = {
@PLACES@};

static int hold(struct kprobe *probe, struct pt_regs *registers)
{
	struct place *place = container_of(probe, struct place, probe);
	u32 number;

	get_random_bytes(&number, sizeof(number));
	if (number % max(one_in, 1u) == 0) {
		u64 left = (u64)place->nanoseconds * percent / 100;

		atomic_inc(&held);
		if (left >= 1000)
			udelay(left / 1000);
		ndelay(left % 1000);
	}
	return 0;
}

static int __init begin(void)
{
	bool is_same = !strcmp(init_utsname()->release, RELEASE);
	int i, set = 0;

	if (!is_same)
		pr_warn("hold: this is not " RELEASE ": functions are held where they begin\n");
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		struct place *place = &places[i];
		int error;

		place->probe.symbol_name = place->symbol;
		place->probe.offset = is_same ? place->offset : 0;
		place->probe.pre_handler = hold;
		error = register_kprobe(&place->probe);
		place->is_there = !error;
		set += !error;
		if (error)
			pr_warn("hold: no probe at %s+0x%x: %d\n", place->symbol,
				is_same ? place->offset : 0, error);
	}
	return set ? 0 : -ENOENT;
}

static void __exit end(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i].is_there)
			unregister_kprobe(&places[i].probe);
	pr_info("hold: held %d times\n", atomic_read(&held));
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Holds processors up where a finding of avicenna lab explore needs it");
