#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of what programs that are built already count on: the layout of
# <linux/devpool.h> is the same for 32 and for 64 bits, and as it was recorded, and
# so are the functions of libdevpool.so. What is recorded is in lib/abi; "make -C lib
# abi" records what was added. No device, no module. Needs gcc-multilib and
# libabigail (abidw, abidiff).
set -u -o pipefail

top=$(realpath "$(dirname "$0")/../..")
export LC_ALL=C
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
number=0
failed=0

# result NAME: of the last command; what it printed is in $tmp/out.
result()
{
	local status=$?

	number=$((number + 1))
	if [ $status -eq 0 ]; then
		echo "ok $number - $1"
	else
		failed=$((failed + 1))
		echo "not ok $number - $1"
		sed 's/^/# /' "$tmp/out"
	fi
}

run()
{
	"$@" >"$tmp/out" 2>&1
}

# recorded FILE: without the line that names its licence, which abidiff does not
# take
recorded()
{
	tail -n +2 "$top/lib/abi/$1"
}

# changed OLD NEW: lines of OLD that NEW lacks, but for a struct that grew
changed()
{
	awk '
	/^struct .* bytes / {
		if (FNR == NR)
			bytes[$2] = $NF
		else if (bytes[$2] + 0 < $NF + 0)
			print $0 ", and now " bytes[$2] + 0
		next
	}
	FNR == NR	{ have[$0] = 1; next }
	!($0 in have)	{ print "this is not so any more: " $0 }' "$2" "$1"
}

echo "TAP version 13"
echo "1..8"
cd "$tmp" || exit 1

run "$top/lib/abi/abi.sh" layout 64 && cp out layout.64 && [ -s layout.64 ] &&
	run "$top/lib/abi/abi.sh" layout 32 && cp out layout.32 && [ -s layout.32 ]
result "the header compiles for 64 and for 32 bits"

run diff layout.64 layout.32 && [ -s layout.64 ]
result "every struct has the same layout for both"

# What the table is made of: nothing of the header is left out.
grep -oP '^struct \Kdevpool_\w+(?= \{)' "$top/uapi/linux/devpool.h" | sort >structs.header
grep -oP '^struct \K\w+(?= bytes)' layout.64 | sort >structs.table
grep -oP '^(\tDEVPOOL_\w+(?= =)|#define \KDEVPOOL_IOC_\w+)' "$top/uapi/linux/devpool.h" |
	tr -d '\t' | sort >names.header
grep -oP '^DEVPOOL_\w+(?= )' layout.64 | sort >names.table
[ -s structs.header ] && [ -s names.header ] && run diff structs.header structs.table &&
	run diff names.header names.table
result "every struct, enumerator and command is in the table"

recorded devpool.layout >layout.recorded
changed layout.recorded layout.64 >out
[ -s layout.recorded ] && [ ! -s out ]
result "the layout is what was recorded, but for what was added"

run diff layout.recorded layout.64
result "all of the layout is recorded"

run env -u MAKEFLAGS -u MAKEOVERRIDES make -C "$top/lib" OUT="$tmp/lib" CFLAGS="-O2 -g" \
	"$tmp/lib/libdevpool.so" &&
	run "$top/lib/abi/abi.sh" library "$tmp/lib/libdevpool.so" && cp out new.abi &&
	recorded libdevpool.abi >old.abi && run abidiff --no-added-syms old.abi new.abi
result "the library's functions are what was recorded"

run abidiff old.abi new.abi
result "all of the library's functions are recorded"

# So that the two above can be believed: a struct with an order of its own
mkdir -p other
cp -r "$top/lib" "$top/uapi" "$top/VERSION" other/
perl -0pi -e 's/\tuint64_t freed;\n\tuint64_t kept;\n/\tuint64_t kept;\n\tuint64_t freed;\n/' \
	other/lib/include/devpool.h
run env -u MAKEFLAGS -u MAKEOVERRIDES make -C other/lib OUT="$tmp/other/out" CFLAGS="-O2 -g" \
	"$tmp/other/out/libdevpool.so" &&
	run other/lib/abi/abi.sh library other/out/libdevpool.so && cp out other.abi &&
	! run abidiff old.abi other.abi && grep -q devpool_result out
result "a struct whose members change places is noticed"

[ $failed -eq 0 ] && [ $number -eq 8 ]
