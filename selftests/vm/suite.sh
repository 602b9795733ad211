#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs a list of tests in one VM and judges the run.
#
#	suite.sh LIST FOLDER RESULTS
#
# LIST has a line "NAME SECONDS" for each test, a program in FOLDER. KERNEL,
# MODULE and the rest are vm.bash's. RESULTS is made anew and gets the logs,
# tap/NAME.tap, and "judged": a line "pass|fail|skip NAME: TEST" for each test
# and for each fault of the run itself.
#
# Exit status: 0, or 1 if anything failed. A run without a verdict is a failure.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
. "$TOP/selftests/vm/vm.bash"

list=$1
folder=$2
results=$3

fail()
{
	echo "fail $*" >>"$results/judged"
}

# The output of all tests in one file, apart
split()
{
	mkdir -p "$results/tap"
	awk -v dir="$results/tap/" '
		# Behind whatever a killed test left without a newline.
		match($0, /# devpool-vm begin [^ ]+$/) {
			file = dir substr($0, RSTART + 19) ".tap"
			printf "" >file
			next
		}
		match($0, /# devpool-vm end /) {
			if (file != "" && RSTART > 1)
				print substr($0, 1, RSTART - 1) >file
			close(file)
			file = ""
			next
		}
		file != "" { print >file }' "$results/out.log"
}

judge_test()
{
	local name=$1 status tap=$results/tap/$1.tap

	status=$(sed -n "s/^test $name //p" "$results/verdict" | tail -n 1)
	[ -e "$tap" ] || : >"$tap"
	if [ -z "$status" ]; then
		if grep -q "^# devpool-vm begin $name\$" "$results/out.log"; then
			fail "$name: all: the VM died in it"
		else
			fail "$name: all: did not run"
		fi
	fi
	awk -v status="${status:-none}" -f "$TOP/selftests/vm/tap.awk" "$tap" |
		sed "s/ / $name: /" >>"$results/judged"
}

judge()
{
	local whole=$1 name line

	split
	while read -r name _; do
		judge_test "$name"
	done <"$VM/tests"

	while IFS= read -r line; do
		fail "run: $line"
	done < <(vm_get error)
	# Twice: as the VM saw it, with what the console lost, and the console
	# with what the VM did not live to see.
	{ vm_get log; vm_log; } | sed 's/^\(<[0-9]*>\)\?\[ *[0-9.]*\] *//' |
		sort -u | while IFS= read -r line; do
		fail "run: in the kernel's log: $line"
	done
	[ "$whole" = 0 ] || fail "run: the VM ended without a verdict"
	if [ "$whole" = 0 ] && [ "${LOAD:-yes}" = yes ]; then
		vm_proven ||
			fail "run: the module in the VM is not the one that was built"
		grep -q '^unloaded' "$results/verdict" ||
			fail "run: the module was not unloaded"
	fi
}

# What a reader wants to see of a failed test.
show()
{
	local name

	sed -n 's/^fail \([^:]*\): .*/\1/p' "$results/judged" | sort -u |
		while read -r name; do
		[ -s "$results/tap/$name.tap" ] || continue
		echo "--- output of $name on $KERNEL, of what failed:"
		failed_output "$results/tap/$name.tap"
	done
	if grep -q '^fail run:' "$results/judged"; then
		echo "--- console of $KERNEL (its end; from the first splat, if any):"
		tr -d '\r' <"$results/console.log" >"$results/console.txt"
		{ grep -a -m 1 -A 60 -E -f <(vm_patterns "$VM_SRC/deny") "$results/console.txt" ||
		  tail -n 30 "$results/console.txt"; }
		rm -f "$results/console.txt"
	fi
}

# Which test is being run, for whoever watches.
progress()
{
	tail -n +1 -s 0.2 --pid="$1" -f "$results/out.log" 2>/dev/null |
		sed -u -n "s/.*# devpool-vm begin /$KERNEL: /p"
}

KERNEL=${KERNEL:-6.12}
vm_begin "$results" || exit
: >"$results/out.log"
: >"$results/judged"
cp "$list" "$VM/tests" || exit
seconds=$(awk '{ s += $2 + 60 } END { print s + 120 }' "$VM/tests")
cp "$VM/tests" "$VM/root/etc/tests"
while read -r name _; do
	[ ! -e "$folder/$name" ] || vm_add "$folder/$name" tests
done <"$VM/tests"
vm_tools
mkdir -p "$VM/root/traces"
for f in ${VM_TRACES:-}; do
	cp "$f" "$VM/root/traces/"
done
vm_export TRACES /traces
vm_conf VM_MODE tests
vm_conf VM_ARGS "${ARGS:-}"

VM_TIMEOUT=${VM_TIMEOUT:-$seconds}
trap vm_kill EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
whole=1
if vm_start; then
	progress "$VM_PID" &
	vm_wait
	whole=$?
	wait
fi
judge $whole
show
! grep -q '^fail ' "$results/judged"
