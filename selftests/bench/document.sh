#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make bench-docs: writes Documentation/performance.md and its plots out of what
# make bench has left in build/bench. Nothing in them is written by hand: what
# the rows mean stands in the file rows, the rest here.
#
#	KERNELS		the series to show (6.12 6.1), the first also as plots

set -eu -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

BENCH=$TOP/selftests/bench
DOC=$TOP/Documentation
read -ra series <<<"${KERNELS:-6.12 6.1}"

KERNELS='' "$TOP/scripts/setup.sh" --bench
for s in "${series[@]}"; do
	[ -s "$TOP/build/bench/$s.json" ] || die "build/bench/$s.json: run make bench KERNELS=$s first"
done

document()
{
	local s

	cat <<'END'
<!-- SPDX-License-Identifier: GPL-2.0-only -->
<!-- Written by make bench-docs. Do not edit. -->
# Performance

What devpool costs, beside what else the kernel offers and beside what no kernel can do without.
`make bench` measures it in a virtual machine on a stock Debian kernel, `make bench-docs` writes this page
from its report, and `make bench-compare A=old.json B=new.json` says what moved between two reports.

**Counted** figures are instructions of the guest, all of them, the kernel's as well as the program's. QEMU
(`-accel tcg -icount shift=0`) advances the clock by one tick for each. So the figures do not depend on the
machine, nor on what else it does; the least of several runs is shown, since an interrupt can only add. They
say nothing about caches, nor about what an instruction costs. The virtual CPU has neither `erms` nor `fsrm`,
so that clearing a page is 512 instructions and not 4096 for everybody alike.

**Timed** figures are ratios of times on two CPUs. They count only where the CPUs were there: before each pair
of times a loop that shares nothing is timed on one CPU and on both. A figure stands for 11 pairs at least,
with the quartiles; where the loop does not get 1.9 times as much out of two CPUs the figure is **void** and
says nothing.

A **limit** is kept, or `make bench` fails. A **goal** is what the module is to become: it is met or missed, or
it is answered, where another measurement shows that more is out of reach. A row with neither is there to
compare. What is not there yet, be it the thing or its benchmark, stands there without a figure, and its goal
is for later. Traces that are not in `selftests/traces` come from a folder given
as `TRACES`: public logs of real programs, converted to the same format. PyTorch's allocator is a model of its
rules (`selftests/bench/torch.c`), tested against the sizes that these rules give.

![Memory that is there, taken and given back, by size](performance/hit.svg)

![64 MiB taken, mapped, touched, unmapped and given back](performance/whole.svg)

![ALLOC + FREE beside live blocks](performance/live.svg)

![Resident beyond what is live](performance/fragmentation.svg)
END
	for s in "${series[@]}"; do
		echo
		jq -r -L "$BENCH" -f "$BENCH/document.jq" "$TOP/build/bench/$s.json"
	done
}

mkdir -p "$DOC/performance"
"$BENCH/plots.sh" "$TOP/build/bench/${series[0]}.json" "$DOC/performance"
document >"$DOC/performance.md"
