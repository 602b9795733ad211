// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that has the fault it is told to have, once: what the debug kernels
 * must notice.
 */

#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>

static char *fault = "";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "the fault's name");

#define SIZE 100

static int number = 1;

static void fault_leak(void)
{
	int i;

	/* More than one: an old value in a register or on a stack may hide it. */
	for (i = 0; i < 10; i++)
		WRITE_ONCE(number, !!kmalloc(SIZE, GFP_KERNEL));
}

static void fault_use_after_free(void)
{
	char *p = kmalloc(SIZE, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	WRITE_ONCE(p[0], 1);
}

static void fault_out_of_bounds(void)
{
	char *p = kmalloc(SIZE, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	WRITE_ONCE(p[SIZE], 1);
	kfree(p);
}

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);

static void fault_lock_order(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);
	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

static DEFINE_SPINLOCK(spin);

static void fault_sleep(void)
{
	spin_lock(&spin);
	msleep(20);
	spin_unlock(&spin);
}

static void fault_shift(void)
{
	int bits = 77;

	OPTIMIZER_HIDE_VAR(bits);
	WRITE_ONCE(number, number << bits);
}

static void fault_list(void)
{
	LIST_HEAD(head);
	struct list_head entry;

	list_add(&entry, &head);
	list_del(&entry);
	list_del(&entry);
}

static void never(struct timer_list *timer)
{
}

static void fault_timer(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	timer_setup(timer, never, 0);
	mod_timer(timer, jiffies + 1000 * HZ);
	kfree(timer);
}

static int race(void *unused)
{
	while (!kthread_should_stop())
		number++;
	return 0;
}

static void fault_race(void)
{
	struct task_struct *task = kthread_run(race, NULL, "race");
	int i;

	if (IS_ERR(task))
		return;
	for (i = 0; i < 3000; i++) {
		number++;
		usleep_range(1000, 2000);
	}
	kthread_stop(task);
}

static const struct {
	const char *name;
	void (*function)(void);
} faults[] = {
	{ "leak", fault_leak },
	{ "use_after_free", fault_use_after_free },
	{ "out_of_bounds", fault_out_of_bounds },
	{ "lock_order", fault_lock_order },
	{ "sleep", fault_sleep },
	{ "shift", fault_shift },
	{ "list", fault_list },
	{ "timer", fault_timer },
	{ "race", fault_race },
};

static int __init faults_init(void)
{
	int i;

	if (!*fault)
		return 0;
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (!strcmp(fault, faults[i].name)) {
			faults[i].function();
			return 0;
		}
	}
	return -EINVAL;
}

static void __exit faults_exit(void)
{
}

module_init(faults_init);
module_exit(faults_exit);

MODULE_DESCRIPTION("has the fault it is told to have, for the test of the debug kernels");
/* Without a version there is no srcversion. */
MODULE_VERSION("1");
MODULE_LICENSE("GPL");
