#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# make coverage: runs the tests on the debug kernel that counts what code is run,
# then prints the lines and branches of the module that they reached, file by
# file; the same as HTML is in build/coverage. No line is left out.
#
#	coverage.sh		the tests, then the table
#	coverage.sh --report	the table of the last make check-debug
#
# Variables are those of check.sh. Exit status: 0; 1 for less than is wanted
# below; that of the tests if they fail.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

KERNEL=6.12-kasan
OUT=$TOP/build/coverage
TAR=$TOP/build/results/debug/$KERNEL/gcda.tar

# The least, in per cent of the lines: of one file, or of all
wanted()
{
	case $1 in
	kmod/arena.c) echo 100 ;;
	TOTAL) echo 95 ;;
	*) echo 0 ;;
	esac
}

sources()
{
	(cd "$TOP" && find kmod -name '*.c' ! -path 'kmod/tests/*' ! -name '*.mod.c' | sort)
}

# "FILE LINES REACHED BRANCHES REACHED", a line for each file and one for all
table()
{
	local f

	awk -F , '
		NR > 1 {
			print $1, $2, $3, $5, $6
			lines += $2; reached += $3; branches += $5; taken += $6
		}
		END { print "TOTAL", lines, reached, branches, taken }' "$OUT/coverage.csv"
	# One that was built and is not there has no line of its own.
	for f in $(sources); do
		grep -q "^$f," "$OUT/coverage.csv" || [ -e "$OUT/obj/${f%.c}.gcda" ] ||
			echo "$f 0 0 0 0"
	done
}

report()
{
	local build file lines reached branches taken least status=0

	build=$TOP/build/$(kernel_release "$KERNEL")
	[ -s "$TAR" ] || die "no counts: ${TAR#"$TOP/"}"
	if grep -rnE '[GL]COVR?_(EXCL|BR_EXCL|STOP|START)' "$TOP/kmod"; then
		die "marks that leave lines out"
	fi
	rm -rf "$OUT"
	mkdir -p "$OUT/all"
	tar -x -C "$OUT/all" -f "$TAR" || die "cannot unpack ${TAR#"$TOP/"}"
	# The counts have the place of the objects as the name of their folder.
	mv "$OUT/all$build" "$OUT/obj" || die "no counts for the module in $build"
	rm -rf "$OUT/all"
	(cd "$build" && find kmod -name '*.gcno') | while read -r file; do
		cp "$build/$file" "$OUT/obj/$file"
	done
	# gcov runs there, and is to find the kernel's headers by the paths that they had.
	ln -s "$(kernel_kdir "$KERNEL")"/{include,arch} "$OUT/obj/" || die "no headers"
	(cd "$build" && gcovr --root . --filter 'kmod/' --exclude 'kmod/tests/' \
		--exclude '.*\.h$' --html-details "$OUT/index.html" \
		--csv "$OUT/coverage.csv" --print-summary "$OUT/obj") \
		>"$OUT/gcovr.log" 2>&1 || { cat "$OUT/gcovr.log" >&2; die "gcovr failed"; }

	printf '%-26s %18s %20s\n' "" lines branches
	while read -r file lines reached branches taken; do
		printf '%-26s %5d of %5d %5.1f%% %5d of %5d %5.1f%%' "$file" \
			"$reached" "$lines" "$(percent "$reached" "$lines")" \
			"$taken" "$branches" "$(percent "$taken" "$branches")"
		least=$(wanted "$file")
		if [ "$lines" = 0 ] || [ $((100 * reached)) -lt $((least * lines)) ]; then
			printf '  less than %d%%' "$least"
			status=1
		fi
		echo
	done < <(table)
	return $status
}

percent()
{
	awk -v part="$1" -v all="$2" 'BEGIN { print all ? 100 * part / all : 0 }'
}

if [ "${1:-}" != --report ]; then
	KERNELS=$KERNEL "$TOP/selftests/vm/check.sh" --debug || exit
fi
report
