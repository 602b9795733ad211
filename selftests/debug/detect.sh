#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests that the debug kernel KERNEL notices what it is there for: a module has
# one fault after the other (selftests/modules/faults), and each must make the
# run fail, and say what it was.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

export KERNEL
MODULE=$TOP/build/$(kernel_release "$KERNEL")/modules/faults/faults.ko
export MODULE
unset TESTS ARGS PARAMS TRACES VM_TRACES QEMU_EXTRA ICOUNT MODULES LOAD
# To live through them all
export MEM=1G APPEND="panic_on_warn=0 kasan_multi_shot"

tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/tests"

# What is in the judgement because of a fault. Lockdep is first: any other report
# switches it off.
case $KERNEL in
*-kasan)
	cat >"$tmp/expected" <<'EOT'
lock_order	in the kernel's log: WARNING: possible circular locking
use_after_free	in the kernel's log: BUG: KASAN: slab-use-after-free in fault_use_after_free
out_of_bounds	in the kernel's log: BUG: KASAN: slab-out-of-bounds in fault_out_of_bounds
sleep	in the kernel's log: BUG: scheduling while atomic
shift	in the kernel's log: UBSAN: shift-out-of-bounds in
list	in the kernel's log: list_del corruption
timer	in the kernel's log: ODEBUG: free active .* object type: timer_list
leak	memory leaked: .* objects
EOT
	;;
*-kcsan)
	cat >"$tmp/expected" <<'EOT'
race	in the kernel's log: BUG: KCSAN: data-race in
EOT
	;;
esac

while IFS=$'\t' read -r fault _; do
	cat >"$tmp/tests/$fault" <<EOT
#!/bin/sh
echo 1..1
rmmod faults
insmod /lib/faults.ko fault=$fault && echo ok 1 loaded
EOT
	chmod +x "$tmp/tests/$fault"
	echo "$fault 120"
done <"$tmp/expected" >"$tmp/list"

"$TOP/selftests/vm/suite.sh" "$tmp/list" "$tmp/tests" "$tmp/results" >"$tmp/out" 2>&1
status=$?
grep -c . "$tmp/list" | sed 's/^/1../'
number=0
while IFS=$'\t' read -r fault says; do
	number=$((number + 1))
	if [ $status = 1 ] && grep -q "^pass $fault: loaded" "$tmp/results/judged" &&
	   grep -q "^fail run: $says" "$tmp/results/judged"; then
		echo "ok $number $fault"
	else
		echo "not ok $number $fault"
		bad=yes
	fi
done <"$tmp/expected"
if [ -n "${bad:-}" ]; then
	sed 's/^/# /' "$tmp/out" "$tmp/results/judged" "$tmp/results/verdict"
	exit 1
fi
