#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make check: every test on every supported stock kernel, then the tests that
# run on this machine (selftests/host). make check-debug, which is check.sh
# --debug: the tests on the debug kernels, and the tests of these kernels
# (selftests/debug). Each kernel has a VM, and all of this runs at the same time.
#
#	KERNELS		6.1 6.12, or 6.12-kasan 6.12-kcsan
#	TESTS		only these, by name: programs, scripts, host tests
#	ARGS		for the test programs, e.g. '-t NAME'
#	PARAMS		the module's parameters
#	MODULES		modules of the stock kernel to load first; vgem, for its fences, and
#			vivid, which captures into dma-bufs
#	TRACES		a folder with traces to add to those in selftests/traces
#	NO_SKIP=yes	a skipped test has failed
#
# Ends with the line "N passed, N failed, N skipped". Exit status: 0; 1 for a
# failed test; 4 for a failed set-up. Logs and TAP are in build/results, those of
# check-debug in build/results/debug.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

DEBUG=no
[ "${1:-}" != --debug ] || DEBUG=yes
if [ $DEBUG = yes ]; then
	KERNELS=${KERNELS:-6.12-kasan 6.12-kcsan}
else
	KERNELS=${KERNELS:-6.1 6.12}
fi
export KERNELS
# Two devices of memory, one of them small enough to fill up, and one of none.
PARAMS=${PARAMS-sysmem=256M,64M null=64T}
# Drivers that import: vgem has fences too, and vivid is of the stock kernels.
if [ $DEBUG = yes ]; then
	export MODULES=${MODULES-vgem}
else
	export MODULES=${MODULES-vgem vivid}
fi
RESULTS=$TOP/build/results
SELF=$TOP/selftests
HOST=$SELF/host
if [ $DEBUG = yes ]; then
	RESULTS=$RESULTS/debug
	HOST=$SELF/debug
	# All is to take less than twenty minutes; who has more time says so.
	export DEVPOOL_RACE_SECONDS=${DEVPOOL_RACE_SECONDS:-6}
	export DEVPOOL_TORTURE_SECONDS=${DEVPOOL_TORTURE_SECONDS:-20}
fi
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
	awk -v check=1 -f "$SELF/vm/list.awk" "$SELF/tests.list" | sed 's/^/fail /'
	diff <(sed -e 's/#.*//' -e '/^[ \t]*$/d' -e 's/[ \t].*//' "$SELF/tests.list" | sort) \
	     <(cd "$TOP/build/selftests" && find . -maxdepth 1 -type f -perm -u+x -printf '%f\n' | sort) |
		sed -n -e 's/^< \(.*\)/fail tests.list: \1: there is no such test/p' \
		       -e 's/^> \(.*\)/fail tests.list: \1: not in the list/p'
}

# list KERNEL: "NAME SECONDS" for each test that is wanted and runs there
list()
{
	local usual

	usual=$(sed -n 's/^timeout=//p' "$SELF/settings")
	awk -v kernel="$1" -v usual="$usual" -f "$SELF/vm/list.awk" "$SELF/tests.list" |
		while read -r name seconds; do
			! wanted "$name" || echo "$name $seconds"
		done
}

# host_tests FOLDER: those that run on this machine
host_tests()
{
	local f

	for f in "$1"/*.sh; do
		[ ! -x "$f" ] || ! wanted "$(basename "$f")" || echo "$f"
	done
}

unknown_tests()
{
	local t

	for t in ${TESTS:-}; do
		grep -q -E "^$t(\.sh)?([[:space:]]|\$)" "$SELF/tests.list" ||
			[ -e "$HOST/$t" ] || [ -e "$HOST/$t.sh" ] ||
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

# run_kernel KERNEL: becomes the run
run_kernel()
{
	KERNEL=$1 MODULE=$TOP/build/$(kernel_release "$1")/devpool.ko \
		MODULE_PARAMS=$PARAMS exec "$SELF/vm/suite.sh" \
		"$RESULTS/$1.list" "$TOP/build/selftests" "$RESULTS/$1"
}

# At the same time: most tests use one of their two processors.
run_kernels()
{
	local k judged pids=()

	for k in $KERNELS; do
		check_config "$k" >>"$RESULTS/judged"
		list "$k" >"$RESULTS/$k.list"
		[ -s "$RESULTS/$k.list" ] || continue
		run_kernel "$k" &
		pids+=($!)
	done
	[ ${#pids[@]} = 0 ] || wait "${pids[@]}"
	for k in $KERNELS; do
		[ -s "$RESULTS/$k.list" ] || continue
		judged=$RESULTS/$k/judged
		# Without a judgement nothing was run.
		[ -s "$judged" ] || echo "fail run: nothing was judged" >>"$judged"
		sed "s/ / $k: /" "$judged" >>"$RESULTS/judged"
	done
}

# host_result SCRIPT WHERE: the name of its files, without what they end in
host_result()
{
	local where=$2-

	echo "$RESULTS/host/${where#host-}$(basename "$1" .sh)"
}

# run_host SCRIPT WHERE: the latter is host, or the kernel it is for
run_host()
{
	local name result status=0 where=$2 began=$SECONDS

	name=$(basename "$1" .sh)
	result=$(host_result "$1" "$where")
	echo "$where: $name"
	(cd "$TOP" && exec timeout -k 10 "$HOST_TIMEOUT" "$1" </dev/null >"$result.tap" 2>&1) &
	wait $! || status=$?
	[ $status != 124 ] && [ $status != 137 ] || status=timeout
	awk -v status=$status -f "$SELF/vm/tap.awk" "$result.tap" |
		sed "s/ / $where: $name: /" >"$result.judged"
	echo "time $name $((SECONDS - began))" >>"$RESULTS/host/verdict"
	if grep -q '^fail ' "$result.judged"; then
		echo "--- output of $name, of what failed:"
		failed_output "$result.tap"
	fi
}

# wheres: where each host test is run
wheres()
{
	[ $DEBUG = yes ] && echo "$KERNELS" || echo host
}

run_hosts()
{
	local t where

	trap 'kill $(jobs -p) 2>/dev/null' EXIT
	trap 'exit 143' TERM
	mkdir -p "$RESULTS/host"
	for t in $(host_tests "$HOST"); do
		for where in $(wheres); do
			KERNEL=$where run_host "$t" "$where"
		done
	done
}

judge_hosts()
{
	local t where judged

	for t in $(host_tests "$HOST"); do
		for where in $(wheres); do
			judged=$(host_result "$t" "$where").judged
			[ -s "$judged" ] ||
				echo "fail $where: $(basename "$t" .sh): all: nothing was judged" >"$judged"
			cat "$judged" >>"$RESULTS/judged"
		done
	done
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
		printf '%-10s %-24s %4d passed' "$where" "$name" "$p"
		[ "$f" = 0 ] || printf ', %d failed' "$f"
		[ "$s" = 0 ] || printf ', %d skipped' "$s"
		sed -n "s/^time $name \(.*\)/, \1 s/p" "$RESULTS/$where/verdict" 2>/dev/null |
			tr -d '\n'
		echo
	done
	sed -n 's/^skip /skipped: /p' "$RESULTS/judged"
	sed -n 's/^fail /FAILED: /p' "$RESULTS/judged"
	echo "logs and TAP: ${RESULTS#"$TOP/"}"
}

count()
{
	grep -c "^$1 " "$RESULTS/judged"
}

finish()
{
	local failed

	[ "${NO_SKIP:-}" != yes ] || sed -i 's/^skip \(.*\)/fail \1 (skipped)/' "$RESULTS/judged"
	summary
	failed=$(count fail)
	echo "$(count pass) passed, $failed failed, $(count skip) skipped"
	[ "$failed" = 0 ] && [ "$(count pass)" != 0 ]
	exit
}

trap 'kill $(jobs -p) 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$RESULTS"
exec 7>"$RESULTS/.lock"
flock -n 7 || die "another make check runs in this tree"
# Not what the other one left
find "$RESULTS" -mindepth 1 -maxdepth 1 ! -name .lock ! -name debug -exec rm -rf {} +
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

VM_TRACES=$(find "$SELF/traces" ${TRACES:+"$TRACES"} -maxdepth 1 -name '*.csv' 2>/dev/null | sort)
export VM_TRACES
if [ -n "${TRACES:-}" ] && [ ! -d "$TRACES" ]; then
	die "TRACES: $TRACES is not a folder"
fi

run_hosts &
hosts=$!
run_kernels
wait $hosts
judge_hosts
finish
