#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests the VM's runner: whatever goes wrong in a run must end as a failure,
# and as the right one. Runs suite.sh with made-up tests and a module of its
# own (selftests/modules/warn), so that a broken devpool changes nothing here.
# What only debug kernels need of it is fed with made-up logs.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

KERNEL=${KERNELS:-6.12}
export KERNEL=${KERNEL##* }
MODULE=$TOP/build/$(kernel_release "$KERNEL")/modules/warn/warn.ko
export MODULE
unset TESTS ARGS PARAMS TRACES VM_TRACES APPEND QEMU_EXTRA ICOUNT MODULES LOAD
export MEM=512M

tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/tests"
number=0
failed=0
status=0

# made NAME: a test, its text on standard input
made()
{
	{ echo '#!/bin/sh'; cat; } >"$tmp/tests/$1"
	chmod +x "$tmp/tests/$1"
}

# suite "NAME SECONDS"...: sets $status
suite()
{
	printf '%s\n' "$@" >"$tmp/list"
	"$TOP/selftests/vm/suite.sh" "$tmp/list" "$tmp/tests" "$tmp/results" >"$tmp/out" 2>&1
	status=$?
}

# ok NAME COMMAND...: one result
ok()
{
	local name=$1

	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number $name"
	else
		echo "not ok $number $name"
		failed=$((failed + 1))
		sed 's/^/# /' "$tmp/out" "$tmp/results/judged" "$tmp/results/verdict"
	fi
}

# judged "LINE": in the judgement, and the suite has failed
judged()
{
	[ $status = 1 ] && grep -q -x -e "$1" "$tmp/results/judged"
}

not()
{
	! "$@" >/dev/null 2>&1
}

# How often the VM was started again
again()
{
	grep -c 'died of its emulation' "$tmp/out"
}

only_passes()
{
	[ $status = 0 ] && [ "$(cat "$tmp/results/judged")" = "pass good: fine" ]
}

made good <<'EOT'
echo 1..1
echo ok 1 fine
EOT
made hang <<'EOT'
echo 1..1
sleep 1000 &
trap '' TERM
while :; do sleep 1; done
EOT
made planless <<'EOT'
echo ok 1 fine
EOT
made unfinished <<'EOT'
echo 1..2
echo ok 1 fine
EOT
made silent <<'EOT'
EOT
made bad <<'EOT'
echo 1..1
echo not ok 1 wrong
exit 1
EOT
made liar <<'EOT'
echo 1..1
echo ok 1 fine
exit 1
EOT
made skipping <<'EOT'
echo 1..1
echo "ok 1 lacking # SKIP no such thing"
exit 4
EOT
made crash <<'EOT'
echo 1..1
kill -SEGV $$
EOT
made noisy <<'EOT'
echo 1..1
echo 'BUG: made up' >/dev/kmsg
echo ok 1 fine
EOT
made off <<'EOT'
echo 1..1
echo ok 1 fine
poweroff -f
EOT
made panic <<'EOT'
echo 1..1
echo ok 1 fine
echo c >/proc/sysrq-trigger
EOT
made emulated <<'EOT'
echo 1..1
echo 'Oops: int3: 0000' >/dev/kmsg
echo c >/proc/sysrq-trigger
EOT
made slow <<'EOT'
echo 1..1
echo ok 1 fine
sleep 1000
EOT
made forger <<'EOT'
echo 1..1
echo ok 1 fine
echo "done 0123456789abcdef" >/dev/ttyS2
poweroff -f
EOT
made unloader <<'EOT'
echo 1..1
rmmod warn
echo ok 1 fine
EOT
made holder <<'EOT'
echo 1..1
echo 1 >/sys/module/warn/parameters/at_unload
echo ok 1 fine
EOT

echo 1..46

suite "good 10"
ok "a good run passes" only_passes

# All that goes wrong in a VM that lives on, in one run.
suite "hang 2" "planless 10" "unfinished 10" "silent 10" "bad 10" "liar 10" \
      "skipping 10" "crash 10" "noisy 10" "absent 10" "good 10"
ok "a hanging test fails" judged "fail hang: all: killed at its timeout"
ok "a missing plan fails" judged "fail planless: all: no plan"
ok "an unfinished plan fails with exit status 0" \
	judged "fail unfinished: all: a plan of 2, but 1 results"
ok "a test that says nothing fails" judged "fail silent: all: no plan"
ok "a failed test fails" judged "fail bad: wrong"
ok "a failing status fails" judged "fail liar: all: exit status 1"
ok "a skip is a skip" judged "skip skipping: lacking: no such thing"
ok "a test that dies fails" judged "fail crash: all: killed by signal 11"
ok "a splat in the log fails" judged "fail run: in the kernel's log: BUG: made up"
ok "a missing program fails" judged "fail absent: all: there is no such program"
ok "a good test among bad ones passes" judged "pass good: fine"

MODULE_PARAMS=at_load=1 suite "good 10"
ok "a module that warns at load fails" \
	judged "fail run: in the kernel's log: WARNING: .*warn_init.*"
ok "and so do the tests that did not run" judged "fail good: all: did not run"
suite "holder 10"
ok "a module that warns at unload fails" \
	judged "fail run: in the kernel's log: WARNING: .*warn_exit.*"
ok "and leaves no verdict" judged "fail run: the VM ended without a verdict"

suite "off 10" "good 10"
ok "a VM that ends early fails" judged "fail run: the VM ended without a verdict"
ok "in the test that it ended in" judged "fail off: all: the VM died in it"
ok "and the next one did not run" judged "fail good: all: did not run"
suite "forger 10"
ok "a verdict of another run is none" judged "fail run: the VM ended without a verdict"

VM_TIMEOUT=20 suite "slow 1000"
ok "a verdict that never comes fails" judged "fail run: the VM ended without a verdict"
suite "panic 10"
ok "a VM that panics fails" judged "fail run: in the kernel's log: Kernel panic.*"
ok "and is not started again" [ "$(again)" = 0 ]

APPEND=rdinit=/none suite "good 10"
ok "a kernel that dies before process 1 is started again, twice" \
	[ "$(again)" = 2 ]
ok "and fails in the end" judged "fail run: the VM ended without a verdict"
suite "emulated 10"
ok "so is one that dies of its emulation" [ "$(again)" = 2 ]
ok "and a run that ends so has failed" \
	judged "fail run: in the kernel's log: Kernel panic.*"

suite "unloader 10"
ok "a module that is gone before its time fails" \
	judged "fail run: the module was not unloaded"

# What suite.sh asks of a verdict that is whole.
proven()
{
	# shellcheck disable=SC2034
	VM=$tmp/results
	echo "$1" >"$VM/srcversion"
	echo "srcversion $2" >"$VM/verdict"
	vm_proven
}

. "$TOP/selftests/vm/vm.bash"
: >"$tmp/out"
ok "the module that was built is the one" proven 0123 0123
ok "a module of another source is not" not proven 0123 4567

# shellcheck disable=SC2034
VM_SRC=$tmp
echo BUG: >"$tmp/deny"
printf 'BUG: known\tit is harmless\n' >"$tmp/allow"
printf '[ 1.0] BUG: known\r\n[ 2.0] BUG: new\r\n' >"$tmp/results/console.log"
ok "what is allowed with a reason is no splat, the rest is" \
	[ "$(vm_log)" = "[ 2.0] BUG: new" ]
echo 'BUG: known' >"$tmp/allow"
ok "what is allowed without a reason is an error" \
	not vm_allowed "$tmp/allow"

# The list of tests

# listed KERNEL LINE: what comes of it there
listed()
{
	echo "$2" | awk -v kernel="$1" -v usual=60 -f "$TOP/selftests/vm/list.awk"
}

# unlisted LINE WHY
unlisted()
{
	[ "$(echo "$1" | awk -v check=1 -f "$TOP/selftests/vm/list.awk")" = "tests.list: a: $2" ]
}

ok "a test has the usual time" [ "$(listed 6.12 a)" = "a 60" ]
ok "or its own" [ "$(listed 6.12 "a 100 2000")" = "a 100" ]
ok "and on a debug kernel ten times that" [ "$(listed 6.12-kasan "a 100")" = "a 1000" ]
ok "or its own for there" [ "$(listed 6.12-kasan "a 100 2000")" = "a 2000" ]
ok "a test that is not for stock kernels does not run there" \
	[ -z "$(listed 6.12 "a no 100 # why")" ]
ok "nor one that is not for debug kernels there" [ -z "$(listed 6.12-kasan "a 60 no # why")" ]
ok "what does not run somewhere needs a reason" unlisted "a no" "no reason is given"
ok "what runs nowhere is an error" unlisted "a no no # why" "runs nowhere"

# Reports of races

race()
{
	printf '[ 1.0] %s\n' ===================================== \
		"BUG: KCSAN: data-race in a / b" "" "write to 0x1 of 8 bytes by task 1 on cpu 0:" \
		" a+0x1/0x2" " $1" ===================================== "$2" |
		awk -f "$TOP/selftests/vm/kcsan.awk" | grep -c -E -f <(vm_patterns "$TOP/selftests/vm/deny")
}

ok "a race in a module counts" [ "$(race "c+0x1/0x2 [devpool]" fine)" = 1 ]
ok "a race of the kernel's own does not" [ "$(race "c+0x1/0x2" fine)" = 0 ]
ok "what comes behind it does" [ "$(race "c+0x1/0x2" WARNING:)" = 1 ]

# KUnit

# kunit KTAP: what kunit.sh makes of it, when loading the module leaves it
kunit()
{
	rm -rf "$tmp/kunit"
	mkdir -p "$tmp/kunit/bin" "$tmp/kunit/results"
	printf %b "$1" >"$tmp/kunit/ktap"
	printf '#!/bin/sh\nmkdir %q; cp %q %q\n' "$tmp/kunit/results/a" "$tmp/kunit/ktap" \
		"$tmp/kunit/results/a/results" >"$tmp/kunit/bin/insmod"
	printf '#!/bin/sh\n' >"$tmp/kunit/bin/rmmod"
	chmod +x "$tmp"/kunit/bin/*
	PATH=$tmp/kunit/bin:$PATH DEVPOOL_KUNIT_KO=x KUNIT_RESULTS=$tmp/kunit/results \
		"$TOP/selftests/kunit.sh" | grep -v '^#'
}

inner='    KTAP version 1\n    # Subtest: a\n'
ok "a case of KUnit's is a result" \
	[ "$(kunit "KTAP version 1\n1..1\n$inner    1..1\n    ok 1 x\nok 1 a\n")" = \
	  $'ok 1 a.x\n1..1' ]
ok "a suite without a plan fails" \
	[ "$(kunit "KTAP version 1\n1..1\n$inner    ok 1 x\nok 1 a\n")" = \
	  $'ok 1 a.x\nnot ok 2 a: no plan\n1..2' ]
ok "and so does one that does not end" \
	[ "$(kunit "KTAP version 1\n1..1\n$inner    1..2\n    ok 1 x\n")" = \
	  $'ok 1 a.x\nnot ok 2 a: a plan of 2, but 1 results\nnot ok 3 a suite that did not end\n1..3' ]

[ $failed -eq 0 ] && [ $number -eq 46 ]
