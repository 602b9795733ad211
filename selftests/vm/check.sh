#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make check: every test on every supported stock kernel, then the tests that
# run on this machine (selftests/host).
#
#	KERNELS		6.1 6.12
#	TESTS		only these, by name: programs, scripts, host tests
#	ARGS		for the test programs, e.g. '-t NAME'
#	PARAMS		the module's parameters
#	TRACES		a folder with traces to add to those in selftests/traces
#
# Ends with the line "N passed, N failed, N skipped". Exit status: 0; 1 for a
# failed test; 4 for a failed set-up. Logs and TAP are in build/results.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

export KERNELS=${KERNELS:-6.1 6.12}
# Two devices of memory, one of them small enough to fill up, and one of none.
PARAMS=${PARAMS-sysmem=256M,64M null=64T}
RESULTS=$TOP/build/results
SELF=$TOP/selftests
HOST_TIMEOUT=900

wanted()
{
	local t

	[ -n "${TESTS:-}" ] || return 0
	for t in $TESTS; do
		[ "$t" != "$1" ] && [ "$t.sh" != "$1" ] || return 0
	done
	return 1
}

# The list and what there is must be the same: a test that nobody runs looks
# like one that passes.
check_list()
{
	diff <(sed -e 's/#.*//' -e '/^[ \t]*$/d' -e 's/[ \t].*//' "$SELF/tests.list" | sort) \
	     <(cd "$TOP/build/selftests" && find . -maxdepth 1 -type f -perm -u+x -printf '%f\n' | sort) |
		sed -n -e 's/^< \(.*\)/fail tests.list: \1: there is no such test/p' \
		       -e 's/^> \(.*\)/fail tests.list: \1: not in the list/p'
}

# "NAME SECONDS" for each test that is wanted
list()
{
	local name seconds default

	default=$(sed -n 's/^timeout=//p' "$SELF/settings")
	while read -r name seconds; do
		case $name in
		'' | \#*) continue ;;
		esac
		! wanted "$name" || echo "$name ${seconds:-$default}"
	done <"$SELF/tests.list"
}

host_tests()
{
	local f

	for f in "$SELF"/host/*.sh; do
		[ ! -x "$f" ] || ! wanted "$(basename "$f")" || echo "$f"
	done
}

unknown_tests()
{
	local t

	for t in ${TESTS:-}; do
		grep -q -E "^$t(\.sh)?([[:space:]]|\$)" "$SELF/tests.list" ||
			[ -e "$SELF/host/$t" ] || [ -e "$SELF/host/$t.sh" ] ||
			echo "$t"
	done
}

# The symbols in the file config that this kernel was not built with
check_config()
{
	local line config

	config=$(kernel_dir "$1")/boot/config-$(kernel_release "$1")
	while read -r line; do
		case $line in
		'' | \#*) continue ;;
		esac
		grep -q -x -F -e "$line" "$config" ||
			echo "fail $1: config: $line: this kernel was not built with it"
	done <"$SELF/config"
}

run_kernel()
{
	local r=$RESULTS/$1

	KERNEL=$1 MODULE=$TOP/build/$(kernel_release "$1")/devpool.ko \
		MODULE_PARAMS=$PARAMS "$SELF/vm/suite.sh" \
		"$RESULTS/list" "$TOP/build/selftests" "$r"
	# Without a judgement nothing was run.
	[ -s "$r/judged" ] || echo "fail run: nothing was judged" >>"$r/judged"
	sed "s/ / $1: /" "$r/judged" >>"$RESULTS/judged"
}

run_host()
{
	local name status=0 tap

	name=$(basename "$1" .sh)
	tap=$RESULTS/host/$name.tap
	echo "host: $name"
	(cd "$TOP" && timeout -k 10 "$HOST_TIMEOUT" "$1" </dev/null >"$tap" 2>&1) || status=$?
	[ $status != 124 ] && [ $status != 137 ] || status=timeout
	awk -v status=$status -f "$SELF/vm/tap.awk" "$tap" |
		sed "s/ / host: $name: /" >"$RESULTS/host/$name.judged"
	cat "$RESULTS/host/$name.judged" >>"$RESULTS/judged"
	if grep -q '^fail ' "$RESULTS/host/$name.judged"; then
		echo "--- output of $name, of what failed:"
		failed_output "$tap"
	fi
}

summary()
{
	local where p f s

	echo
	sed 's/^[a-z]* \(host\|[^:]*\): \([^:]*\): .*/\1 \2/' "$RESULTS/judged" | uniq |
		while read -r where name; do
		p=$(grep -c "^pass $where: $name: " "$RESULTS/judged")
		f=$(grep -c "^fail $where: $name: " "$RESULTS/judged")
		s=$(grep -c "^skip $where: $name: " "$RESULTS/judged")
		printf '%-5s %-24s %4d passed' "$where" "$name" "$p"
		[ "$f" = 0 ] || printf ', %d failed' "$f"
		[ "$s" = 0 ] || printf ', %d skipped' "$s"
		echo
	done
	sed -n 's/^skip /skipped: /p' "$RESULTS/judged"
	sed -n 's/^fail /FAILED: /p' "$RESULTS/judged"
	echo "logs and TAP: build/results"
}

count()
{
	grep -c "^$1 " "$RESULTS/judged"
}

finish()
{
	local failed

	summary
	failed=$(count fail)
	echo "$(count pass) passed, $failed failed, $(count skip) skipped"
	[ "$failed" = 0 ] && [ "$(count pass)" != 0 ]
	exit
}

trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$RESULTS"
exec 7>"$RESULTS/.lock"
flock -n 7 || die "another make check runs in this tree"
rm -rf "${RESULTS:?}"/*
mkdir "$RESULTS/host"
: >"$RESULTS/judged"

"$TOP/scripts/setup.sh" || exit "$EXIT_SETUP"
unknown=$(unknown_tests)
[ -z "$unknown" ] || die "no such test: $unknown"
# shellcheck disable=SC2086
if ! "$TOP/scripts/build.sh" --tests $KERNELS; then
	echo "fail build: build: all: it does not build" >"$RESULTS/judged"
	finish
fi
check_list >>"$RESULTS/judged"
list >"$RESULTS/list"

VM_TRACES=$(find "$SELF/traces" ${TRACES:+"$TRACES"} -maxdepth 1 -name '*.csv' 2>/dev/null | sort)
export VM_TRACES
if [ -n "${TRACES:-}" ] && [ ! -d "$TRACES" ]; then
	die "TRACES: $TRACES is not a folder"
fi

if [ -s "$RESULTS/list" ]; then
	for k in $KERNELS; do
		check_config "$k" >>"$RESULTS/judged"
		run_kernel "$k"
	done
fi
for t in $(host_tests); do
	run_host "$t"
done
finish
