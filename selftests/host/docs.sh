#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of what the documentation shows in C: it compiles, and the programs that
# Documentation/userspace-api includes are built against an installed library and are
# tested for what the pages say that they print. No device, no module.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

export LC_ALL=C
PAGES=$TOP/Documentation/userspace-api
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
number=0
failed=0
prefix=$tmp/usr

# result NAME COMMAND...: one line of TAP
result()
{
	local name=$1 verdict=ok

	shift
	if ! "$@" >"$tmp/out" 2>&1; then
		verdict="not ok"
		failed=1
		sed 's/^/# /' "$tmp/out"
	fi
	number=$((number + 1))
	echo "$verdict $number - $name"
}

install_library()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		make -s -C "$TOP/lib" OUT="$tmp/lib" PREFIX="$prefix" install
}

# flags OPTION...: what the installed library says
flags()
{
	PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@" libdevpool
}

# blocks PAGE: its code in C
blocks()
{
	awk '
	/^\.\. code-block:: c$/	{ on = 1; next }
	on && /^[^\t]/		{ on = 0 }
	on			{ sub(/^\t/, ""); print }' "$1"
}

# Where the kernel's own headers of its drivers are: a machine need not have others.
drm_headers()
{
	echo "$(dirname "$(kernel_kdir 6.12)")"/linux-headers-*-common/include/uapi
}

# compile LEAST: the code on standard input, which has at least so many functions
compile()
{
	cat >"$tmp/code.c"
	[ "$(grep -c '^}$' "$tmp/code.c")" -ge "$1" ] || { echo "it has too little code"; return 1; }
	# Flags are words.
	# shellcheck disable=SC2046
	gcc -std=gnu11 -Wall -Wextra -Werror -c -o "$tmp/code.o" "$tmp/code.c" $(flags --cflags) \
		-D__user= -idirafter "$(drm_headers)"
}

# The page names what its examples include.
check_commands()
{
	{
		sed -n 's/^    \(#include <[a-z_/-]*\.h>\)$/\1/p' "$PAGES/devpool.rst" | sort -u
		blocks "$PAGES/devpool.rst"
	} | compile 10
}

check_porting()
{
	{
		printf '#include <%s>\n' devpool.h errno.h sys/ioctl.h
		blocks "$PAGES/porting.rst"
	} | compile 10
}

check_device_page()
{
	sed -n '/^\.SH EXAMPLES/,$p' "$TOP/Documentation/man/man4/devpool.4" |
		sed -n '/^\.EX/,/^\.EE/p' | grep -v '^\.E' |
		sed -e 's/\\-/-/g' -e 's/\\e/\\/g' | compile 1
}

# build_example PAGE FILE
build_example()
{
	# Flags are words.
	# shellcheck disable=SC2046
	gcc -Wall -Wextra -Werror -o "$tmp/$(basename "$2" .c)" "$TOP/$2" \
		$(flags --cflags --libs) && grep -q "literalinclude:: .*/${2#Documentation/}$" "$PAGES/$1"
}

# It has no device: it says so.
run_example()
{
	local status=0

	LD_LIBRARY_PATH=$prefix/lib DEVPOOL_DEVICE=$tmp/none "$tmp/mempool" >"$tmp/said" 2>&1 || status=$?
	cat "$tmp/said"
	[ $status = 1 ] && [ "$(cat "$tmp/said")" = "open: No such file or directory" ]
}

# What the pages say that it prints is what the test in the VM wants, in this order.
check_output()
{
	cat "$PAGES"/{porting,devpool}.rst |
		sed -n '/^It prints, /,/^[^ ].*[^:]$/p' | sed -n 's/^    //p' >"$tmp/page"
	sed -n 's/^.*"\(.*\)\\n"[^"]*$/\1/p' "$TOP/selftests/example.c" >"$tmp/test"
	[ -s "$tmp/page" ] && diff "$tmp/page" "$tmp/test"
}

echo "TAP version 13"
echo "1..9"
result "the library is installed" install_library
result "the examples of the commands compile" check_commands
result "what calls become compiles" check_porting
result "the example of devpool(4) compiles" check_device_page
result "the ported program is built against the installed library" \
	build_example porting.rst lib/examples/mempool.c
result "so is the one that shares a pool" \
	build_example devpool.rst Documentation/examples/share.c
result "so is the one that exports a block" \
	build_example devpool.rst Documentation/examples/dmabuf.c
result "the ported program says what it lacks" run_example
result "all are tested for what the pages say that they print" check_output
[ $failed = 0 ]
