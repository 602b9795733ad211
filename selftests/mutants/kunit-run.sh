#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The mutants that KUnit kills: kunit-*.patch. Like run.sh, but what is broken are
# the sources in devpool_kunit.ko, and the head of a patch says
#
#	# killed by: kunit SUITE TEST, without devpool_ before the suite
#
#	MUTANTS		only these, by name without .patch
#	SEED		of the tests' random numbers (1)
#
# Ends with the line "N passed, N failed, N skipped", a survivor being a failure.
# Exit status: 0; 1 for a survivor; 4 for a failed set-up.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

SERIES=6.12-kasan
SELF=$TOP/selftests/mutants
OUT=$TOP/build/mutants/kunit
SEED=${SEED:-1}
export KERNELS=$SERIES LOAD=no
passed=0
failed=0

head_of()
{
	sed -n "s/^# $2: //p" "$SELF/$1.patch"
}

# build NAME: devpool_kunit.ko with the fault, as OUT/NAME.ko
build()
{
	mkdir -p "$OUT/src"
	copy_changed "$TOP/kmod" "$OUT/src/kmod"
	copy_changed "$TOP/uapi" "$OUT/src/uapi"
	cp "$TOP/VERSION" "$OUT/src/"
	sed 's/^obj-m := devpool.o$/obj-m :=/' "$TOP/Kbuild" >"$OUT/src/Kbuild"
	if [ -e "$SELF/$1.patch" ]; then
		patch -s -p1 -d "$OUT/src" <"$SELF/$1.patch" || return
	fi
	make --no-print-directory -s -j"$(nproc)" -C "$(kernel_kdir $SERIES)" M="$OUT/src" \
		modules >"$OUT/$1.build" 2>&1 || {
		cat "$OUT/$1.build"
		return 1
	}
	strip --strip-debug -o "$OUT/$1.ko" "$OUT/src/devpool_kunit.ko"
}

# run_test KO SUITE TEST: the lines of a VM's script that run a test and set r. What
# it did with each of its parameters is further to the right in the results.
run_test()
{
	echo "printf %s devpool_$2.$3 >/sys/module/kunit/parameters/filter_glob"
	echo "insmod $1.ko seed=$SEED || exit"
	echo "results=/sys/kernel/debug/kunit/devpool_$2/results r=none"
	echo "grep -qE '^    ok [0-9]+ $3( |\$)' \$results && r=passed"
	echo "grep -qE '^    not ok [0-9]+ $3( |\$)' \$results && r=failed"
	echo "rmmod devpool_kunit || exit"
}

# in_vm SCRIPT KO...: prints what the script prints
in_vm()
{
	local script="cd /files"$'\n'$1

	shift
	VM_CMD=$script FILES="$*" "$TOP/selftests/vm/run.sh" 2>"$OUT/log" | tr -d '\r'
}

# Without a fault every test passes, or its failure would say nothing.
run_clean()
{
	local line suite name script='' out status=0

	while read -r line; do
		read -r _ suite name <<<"$line"
		script+=$(run_test clean "$suite" "$name")$'\n'
		script+="[ \$r = passed ] || echo $line: \$r"$'\n'
	done < <(for name; do head_of "$name" 'killed by'; done | sort -u)
	out=$(in_vm "$script" "$OUT/clean.ko") || status=$?
	if [ $status != 0 ] || [ -n "$out" ]; then
		echo "without a fault these fail on $SERIES:"
		echo "$out"
		cat "$OUT/log"
		exit 4
	fi
}

verdict()
{
	if [ "$2" = passed ] || [ "$2" = none ]; then
		failed=$((failed + 1))
		echo "FAILED: $1 survives: $(head_of "$1" 'killed by') does not see '$(head_of "$1" kind)' ($2)"
	else
		passed=$((passed + 1))
		echo "killed: $1 by $(head_of "$1" 'killed by')$3"
	fi
}

# Runs mutants until they are through or the VM is, and says for each that it has
# come to which it is. What is left is in $left.
run_some()
{
	local name line word suite t files=() script='' running=

	for name; do
		read -r _ suite t <<<"$(head_of "$name" 'killed by')"
		files+=("$OUT/$name.ko")
		script+="echo; echo mutant $name"$'\n'
		script+=$(run_test "$name" "$suite" "$t")$'\n'
		script+="echo; echo verdict \$r"$'\n'
	done
	left=" $* "
	while read -r line word; do
		case $line in
		mutant)
			running=$word
			;;
		verdict)
			verdict "$running" "$word" ''
			left=${left/ $running / }
			running=
			;;
		esac
	done < <(in_vm "$script" "${files[@]}")
	if [ -n "$running" ]; then
		verdict "$running" failed ", in the kernel's log"
		left=${left/ $running / }
	fi
}

mutants=()
for patch in "$SELF"/kunit-*.patch; do
	name=$(basename "$patch" .patch)
	[ -z "${MUTANTS:-}" ] || [[ " $MUTANTS " == *" $name "* ]] || continue
	mutants+=("$name")
done
"$TOP/scripts/setup.sh" || exit 4
mkdir -p "$OUT"
# The VM has the tools, whatever is run in it.
"$TOP/scripts/build.sh" || exit 4
build clean || exit 4
run_clean "${mutants[@]}"

left=' '
for name in ${mutants[@]+"${mutants[@]}"}; do
	rm -f "$OUT/$name.ko"
	if build "$name"; then
		left+="$name "
	else
		echo "FAILED: $name does not apply or build"
		failed=$((failed + 1))
	fi
done
while [ -n "${left// /}" ]; do
	before=$left
	# shellcheck disable=SC2086
	run_some $left
	if [ "$left" = "$before" ]; then
		echo "FAILED: the VM does not run:"
		cat "$OUT/log"
		exit 4
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
