#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make mutants: breaks the module on purpose and shows that a test turns red. Each
# FILE.patch here makes one fault; its head says
#
#	# kind: what kind of fault it is
#	# killed by: PROGRAM TEST, the test that must fail
#	# kernel: 6.12-kasan or 6.12-kcsan, if only that sees it
#
# A mutant is killed if the test fails, does not end, or the kernel's log shows a
# splat. Those of a kernel run one after the other in one VM, which is started again
# where one of them has brought it down.
#
#	MUTANTS		only these, by name without .patch
#
# Ends with the line "N passed, N failed, N skipped", a survivor being a failure.
# Exit status: 0; 1 for a survivor; 4 for a failed set-up.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
. "$TOP/selftests/vm/vm.bash"

SERIES=(6.12 6.12-kasan 6.12-kcsan)
SELF=$TOP/selftests/mutants
OUT=$TOP/build/mutants
export PARAMS='sysmem=256M,64M null=64T' MODULES=vgem LOAD=no
passed=0
failed=0

head_of()
{
	sed -n "s/^# $2: //p" "$SELF/$1.patch"
}

# build SERIES NAME: the module with the fault, as OUT/SERIES/NAME.ko
build()
{
	local dir=$OUT/$1/src

	mkdir -p "$dir"
	copy_changed "$TOP/kmod" "$dir/kmod"
	copy_changed "$TOP/uapi" "$dir/uapi"
	cp "$TOP/VERSION" "$dir/"
	sed '/^ifneq .*CONFIG_KUNIT/,/^endif/d' "$TOP/Kbuild" >"$dir/Kbuild"
	patch -s -p1 -d "$dir" <"$SELF/$2.patch" || return
	make --no-print-directory -s -j"$(nproc)" -C "$(kernel_kdir "$1")" M="$dir" modules \
		>"$OUT/$1/$2.build" 2>&1 || {
		cat "$OUT/$1/$2.build"
		return 1
	}
	strip --strip-debug -o "$OUT/$1/$2.ko" "$dir/devpool.ko"
}

# The lines of a VM's script that run a test: sets r to passed, failed or skipped.
run_test()
{
	echo "DEVPOOL_SLOW=$1 timeout -s KILL $((60 * $1)) ./$2 -t $3 >log 2>&1; r=failed"
	echo "grep -q '^ok ' log && ! grep -q '^not ok ' log && r=passed"
	echo "grep -q '^ok .*# SKIP' log && r=skipped"
	# A debug kernel's log counts, and leaks, which it sees after five seconds and
	# in the second scan, when they have not changed since the first.
	[ "$1" = 1 ] || cat <<-'END'
		if [ -e /sys/kernel/debug/kmemleak ]; then
			sleep 6
			echo scan >/sys/kernel/debug/kmemleak
			echo scan >/sys/kernel/debug/kmemleak
			grep -q devpool /sys/kernel/debug/kmemleak && r=failed
			echo clear >/sys/kernel/debug/kmemleak
		fi
		dmesg -c | awk -f /etc/kcsan.awk | grep -q -E 'BUG: |WARNING: ' && r=failed
	END
}

slow_of()
{
	[[ $1 != *-* ]] && echo 1 || echo "$VM_SLOW"
}

# Without a fault every test passes, or its failure would say nothing.
run_clean()
{
	local series=$1 name line files=() script="cd /files"$'\n' status=0

	shift
	while read -r line; do
		files+=("$TOP/build/selftests/${line%% *}")
		script+=$(run_test "$(slow_of "$series")" "${line%% *}" "${line##* }")$'\n'
		script+="[ \$r = passed ] || echo $line"$'\n'
	done < <(for name; do head_of "$name" 'killed by'; done | sort -u)
	KERNELS=$series LOAD=yes VM_CMD=$script \
		FILES="$(printf '%s\n' "${files[@]}" | sort -u)" \
		"$TOP/selftests/vm/run.sh" >"$OUT/$series/clean" 2>"$OUT/$series/log" || status=$?
	if [ $status != 0 ] || [ -s "$OUT/$series/clean" ]; then
		echo "without a fault these fail on $series:"
		cat "$OUT/$series/clean" "$OUT/$series/log"
		exit 4
	fi
}

verdict()
{
	if [ "$2" != failed ]; then
		failed=$((failed + 1))
		echo "FAILED: $1 survives: $(head_of "$1" 'killed by') does not see '$(head_of "$1" kind)'"
	else
		passed=$((passed + 1))
		echo "killed: $1 by $(head_of "$1" 'killed by')$3"
	fi
}

# Runs mutants until they are through or the VM is, and says for each that it has
# come to which it is. What is left is in $left.
run_some()
{
	local series=$1 name line word files=() script="cd /files"$'\n' running=

	shift
	for name; do
		line=$(head_of "$name" 'killed by')
		files+=("$OUT/$series/$name.ko" "$TOP/build/selftests/${line%% *}")
		script+="echo; echo mutant $name; insmod $name.ko $PARAMS || exit"$'\n'
		# For tests that load it again
		script+="export DEVPOOL_KO=/files/$name.ko"$'\n'
		script+=$(run_test "$(slow_of "$series")" "${line%% *}" "${line##* }")$'\n'
		script+="echo; echo verdict \$r; rmmod devpool || exit"$'\n'
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
	done < <(KERNELS=$series VM_CMD=$script FILES="$(printf '%s\n' "${files[@]}" | sort -u)" \
			"$TOP/selftests/vm/run.sh" 2>"$OUT/$series/log" | tr -d '\r')
	if [ -n "$running" ]; then
		verdict "$running" failed ", in the kernel's log"
		left=${left/ $running / }
	fi
}

run_all()
{
	local series=$1 name built=() before

	shift
	[ $# != 0 ] || return 0
	run_clean "$series" "$@"
	for name; do
		rm -f "$OUT/$series/$name.ko"
		if build "$series" "$name"; then
			built+=("$name")
		else
			echo "FAILED: $name does not apply or build"
			failed=$((failed + 1))
		fi
	done
	left=" ${built[*]} "
	while [ -n "${left// /}" ]; do
		before=$left
		# shellcheck disable=SC2086
		run_some "$series" $left
		if [ "$left" = "$before" ]; then
			echo "FAILED: the VM does not run:"
			cat "$OUT/$series/log"
			exit 4
		fi
	done
}

# series_of NAME: the kernel that a mutant is for
series_of()
{
	local series

	series=$(head_of "$1" kernel)
	echo "${series:-${SERIES[0]}}"
}

declare -A mutants=()
for patch in "$SELF"/*.patch; do
	name=$(basename "$patch" .patch)
	[ -z "${MUTANTS:-}" ] || [[ " $MUTANTS " == *" $name "* ]] || continue
	# Those of KUnit have a runner of their own.
	[[ $(head_of "$name" 'killed by') != kunit* ]] || continue
	mutants[$(series_of "$name")]+=" $name"
done
KERNELS=${!mutants[*]} "$TOP/scripts/setup.sh" || exit 4
"$TOP/scripts/build.sh" --tests "${!mutants[@]}" || exit 4
for series in "${SERIES[@]}"; do
	mkdir -p "$OUT/$series"
	# shellcheck disable=SC2086
	run_all "$series" ${mutants[$series]:-}
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
