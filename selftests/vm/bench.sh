#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make bench: runs selftests/bench/bench.sh in a VM whose clock counts
# instructions, with what selftests/bench has and the traces in traces/, and
# prints what the file rows there makes of it.
#
#	KERNELS		6.12
#	TESTS		only these benchmarks: unit hit memory live close map traces
#	TRACES		a folder with traces to add to those in selftests/traces
#
# The table and the figures are kept in build/bench, as SERIES.txt and
# SERIES.json. Exit status: 0; 1 if a limit is missed or a benchmark fails; that of
# the VM if it fails.

set -eu -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

export KERNELS=${KERNELS:-6.12}
export ICOUNT=1 MEM=${MEM:-4G} VM_TIMEOUT=${VM_TIMEOUT:-3600}
export PARAMS=${PARAMS-sysmem=512M null=64T}
OUT=$TOP/build/bench
BENCH=$TOP/selftests/bench

[ -z "${TRACES:-}" ] || [ -d "$TRACES" ] || die "TRACES: $TRACES is not a folder"
"$TOP/scripts/setup.sh"
# shellcheck disable=SC2086
"$TOP/scripts/build.sh" --tests $KERNELS
cd "$TOP"
traces=$(mktemp -d)
trap 'rm -rf "$traces"' EXIT
mkdir "$traces/traces"
find selftests/traces ${TRACES:+"$TRACES"} -maxdepth 1 -name '*.csv' \
	-exec cp {} "$traces/traces/" \;
FILES="$BENCH/bench.sh $(find build/selftests/bench -maxdepth 1 -type f -perm -u+x) $traces/traces"
export FILES
# What all the rest is compared with
export VM_CMD="sh ./bench.sh ${TESTS:+unit $TESTS}"
mkdir -p "$OUT"

# Figures go on, to be judged; for whoever watches there is the rest.
figures()
{
	awk -v series="$1" '
		/^[a-z][A-Za-z0-9_.-]* -?[0-9.]+$/ { print; next }
		sub(/^# /, series ": ") || 1 { print >"/dev/stderr" }'
}

# run SERIES: 1 if a benchmark fails or a limit is missed; ends here if the VM
# fails
run()
{
	local release status=0 at=$OUT/$1

	release=$(kernel_release "$1")
	rm -f "$at".{raw,json,txt}
	KERNELS=$1 selftests/vm/run.sh | figures "$1" >"$at.raw" || status=$?
	[ $status -le 1 ] || exit $status
	awk -v json="$at.json" -v some="${TESTS:+1}" -v kernel="$release" \
		-v module="$(modinfo -F version "build/$release/devpool.ko")" \
		-v qemu="$(qemu-system-x86_64 --version | sed -n '1s/.*version \([^ ]*\).*/\1/p')" \
		-f "$BENCH/report.awk" "$BENCH/rows" "$at.raw" | tee "$at.txt" || status=1
	return $status
}

status=0
for series in $KERNELS; do
	run "$series" || status=1
done
exit $status
