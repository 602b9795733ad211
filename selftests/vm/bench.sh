#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make bench: runs selftests/bench/bench.sh with what selftests/bench has and the
# traces in traces/, and prints what the file rows there makes of it. There are
# two boots: counted, in a VM of one CPU whose clock counts instructions, and
# timed, on two CPUs.
#
#	KERNELS		6.12
#	TESTS		only these benchmarks: unit hit batch memory live close contract
#			streams touch share whole heap traces scale; scale is what is timed
#	TRACES		a folder with traces to add to those in selftests/traces
#
# The table, the figures and their plots are kept in build/bench, as SERIES.txt,
# SERIES.json and SERIES/; plots only of all benchmarks. Exit status: 0; 1 if a
# limit is missed or a benchmark fails; that of the VM if it fails.

set -eu -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

COUNTED=(unit hit batch memory live close contract streams touch share whole heap traces)
TIMED=(scale)

export KERNELS=${KERNELS:-6.12}
export MEM=${MEM:-4G} VM_TIMEOUT=${VM_TIMEOUT:-3600}
export PARAMS=${PARAMS-sysmem=512M null=64T} MODULES=${MODULES-vgem}
OUT=$TOP/build/bench
BENCH=$TOP/selftests/bench

[ -z "${TRACES:-}" ] || [ -d "$TRACES" ] || die "TRACES: $TRACES is not a folder"
for t in ${TESTS:-}; do
	[[ " ${COUNTED[*]} ${TIMED[*]} " = *" $t "* ]] || die "no such benchmark: $t"
done
"$TOP/scripts/setup.sh" --bench
# shellcheck disable=SC2086
"$TOP/scripts/build.sh" --bench $KERNELS
cd "$TOP"
traces=$(mktemp -d)
trap 'rm -rf "$traces"' EXIT
mkdir "$traces/traces"
find selftests/traces ${TRACES:+"$TRACES"} -maxdepth 1 -name '*.csv' \
	-exec cp {} "$traces/traces/" \;
FILES="$BENCH/bench.sh $(find build/selftests/bench -maxdepth 1 -type f -perm -u+x) $traces/traces"
export FILES
mkdir -p "$OUT"

# wanted NAME...: those of them that are wanted
wanted()
{
	local t

	for t; do
		[ -n "${TESTS:-}" ] && [[ " $TESTS " != *" $t "* ]] || echo "$t"
	done
}

# Figures and versions go on; for whoever watches there is the rest.
figures()
{
	awk -v series="$1" '
		/^[a-z][A-Za-z0-9_.-]*( -?[0-9.]+)+$/ || /^= / { print; next }
		sub(/^# /, series ": ") || 1 { print >"/dev/stderr"; fflush() }'
}

# boot SERIES NAME...: these benchmarks in a VM; 1 if one fails, ends here if the
# VM does
boot()
{
	local series=$1 status=0

	shift
	VM_CMD="sh ./bench.sh $*" KERNELS=$series selftests/vm/run.sh |
		figures "$series" >>"$OUT/$series.raw" || status=$?
	[ $status -le 1 ] || exit $status
	return $status
}

# run SERIES: 1 if a benchmark fails or a limit is missed
run()
{
	local release counted timed status=0 at=$OUT/$1

	release=$(kernel_release "$1")
	rm -rf "$at" "$at".{raw,json,txt}
	{
		echo "= glibc $(getconf GNU_LIBC_VERSION | sed 's/.* //')"
		echo "= gcc $(gcc -dumpfullversion)"
	} >"$at.raw"
	counted=$(wanted "${COUNTED[@]}")
	timed=$(wanted "${TIMED[@]}")
	# With unit, which the rest is compared with.
	# shellcheck disable=SC2086
	[ -z "$counted" ] || ICOUNT=1 boot "$1" unit ${counted#unit} || status=1
	# shellcheck disable=SC2086
	[ -z "$timed" ] || CPUS=2 boot "$1" $timed || status=1
	jq -n -R --rawfile rows "$BENCH/rows" --arg some "${TESTS:+1}" \
		--arg series "$1" --arg kernel "$release" \
		--arg devpool "$(modinfo -F version "build/$release/devpool.ko")" \
		--arg qemu "$(qemu-system-x86_64 --version | sed -n '1s/.*version \([^ ]*\).*/\1/p')" \
		--arg command "make bench KERNELS=$1${TESTS:+ TESTS='$TESTS'}${TRACES:+ TRACES=FOLDER}" \
		-f "$BENCH/report.jq" "$at.raw" >"$at.json"
	jq -r -L "$BENCH" -f "$BENCH/show.jq" "$at.json" | tee "$at.txt"
	if [ -z "${TESTS:-}" ]; then
		mkdir -p "$at"
		"$BENCH/plots.sh" "$at.json" "$at" || status=1
	fi
	jq -e '[.groups[].rows[].limit | select(.) | .met] | index(false) | not' "$at.json" >/dev/null ||
		status=1
	return $status
}

status=0
for series in $KERNELS; do
	run "$series" || status=1
done
exit $status
