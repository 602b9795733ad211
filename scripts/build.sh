#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds what the VM runs: the module for the stock kernels named, the
# library, the tools and, with --tests, the tests, or, with --bench, what make
# bench runs. Says nothing unless something fails or warns.
#
#	build.sh [--tests | --bench] [SERIES...]
#
# As there are two kernels, and one source tree has room for one kernel's
# objects only, each module is built in a copy: build/RELEASE/.

set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

# A target of selftests/Makefile
selftests=
case ${1:-} in
--tests) selftests=all ;;
--bench) selftests=bench ;;
esac
[ -z "$selftests" ] || shift

quiet()
{
	local log=$TOP/build/build.log

	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		say "failed: $*"
		return 1
	fi
	grep -E '(warning|WARNING):' "$log" >&2 || true
}

# make_in ARGUMENT...: without what the caller's make passes down by itself,
# which is meant for other makefiles.
make_in()
{
	quiet env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		make --no-print-directory -j"$(nproc)" "$@"
}

build_module()
{
	local release dir d f

	release=$(kernel_release "$1")
	dir=$TOP/build/$release
	mkdir -p "$dir"
	for d in kmod uapi; do
		copy_changed "$TOP/$d" "$dir/$d"
	done
	for f in Kbuild VERSION; do
		cmp -s "$TOP/$f" "$dir/$f" || cp "$TOP/$f" "$dir/$f"
	done
	make_in -C "$(kernel_kdir "$1")" M="$dir" modules
}

# build_test_modules SERIES: what only tests load
build_test_modules()
{
	local release dir d

	release=$(kernel_release "$1")
	for d in "$TOP"/selftests/modules/*/; do
		dir=$TOP/build/$release/modules/$(basename "$d")
		copy_changed "${d%/}" "$dir"
		make_in -C "$(kernel_kdir "$1")" M="$dir" modules
	done
}

mkdir -p "$TOP/build"
# Two runs in one tree are to wait for each other.
exec 8>"$TOP/build/.lock"
flock 8

for k; do
	build_module "$k"
	[ "$selftests" != all ] || build_test_modules "$k"
done
# Spelt out, for OUT may stand in the environment.
make_in -C "$TOP/lib" OUT="$TOP/build/lib"
make_in -C "$TOP/tools" OUT="$TOP/build/tools" LIBOUT="$TOP/build/lib"
[ -z "$selftests" ] || make_in -C "$TOP/selftests" OUT="$TOP/build/selftests" \
	LIBOUT="$TOP/build/lib" KSFT_DIR="$(ksft_dir)" $selftests
