#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What programs that are built already count on, as text:
#
#	abi.sh layout [64|32]	every struct, member, enumerator and command of
#				<linux/devpool.h>, as a compiler for so many bits
#				(64) sees it. Runs nothing, so it needs no such machine
#	abi.sh library FILE	the functions of libdevpool.so with their types, in
#				libabigail's XML
#
# "make -C lib abi" records both here, to which selftests/host/abi.sh compares.
set -eu

top=$(realpath "$(dirname "$0")/../..")
CC=${CC:-gcc}

# From the preprocessed header: a statement for each number, which puts a line
# with it into the assembler's text.
statements()
{
	sed 's/__attribute__((aligned(8)))//; s/\[[0-9]*\];/;/' | awk '
	function put(what, value, more) {
		printf "asm volatile(\"\\n-> %s %%c0%s\" : : \"i\" (%s)", what,
			more == "" ? "" : " bytes %c1", value
		print (more == "" ? "" : ", \"i\" (" more ")") ");"
	}
	/^command /		{ put($2, "(long long)" $2) }
	/^struct [a-z_]+ {/	{ name = $2; put("struct " name " bytes", "sizeof(struct " name ")") }
	/^enum/			{ enums = 1 }
	/^}/			{ name = ""; enums = 0 }
	enums && /=/		{ put($1, "(long long)" $1) }
	name != "" && /;$/ {
		member = substr($NF, 1, length($NF) - 1)
		put(name "." member " " ($1 == "struct" ? $1 " " $2 : $1) " at",
		    "__builtin_offsetof(struct " name ", " member ")",
		    "sizeof(((struct " name " *)0)->" member ")")
	}'
}

layout()
{
	header='#include <linux/devpool.h>'
	{
		echo "$header"
		echo 'void table(void) {'
		{
			echo "$header" | $CC -E -P -I"$top/uapi" -
			sed -n 's/^#define \(DEVPOOL_IOC_[A-Z_]*\) .*/command \1/p' \
				"$top/uapi/linux/devpool.h"
		} | statements
		echo '}'
	} | $CC -m"$1" -x c -I"$top/uapi" -S -O1 -o - - | sed -n 's/^-> //p'
}

library()
{
	abidw --exported-interfaces-only --no-elf-needed --no-show-locs --no-corpus-path \
		--no-comp-dir-path --type-id-style hash --drop-private-types \
		--headers-dir "$top/uapi" --headers-dir "$top/lib/include" "$1"
}

case ${1:-} in
layout)		layout "${2:-64}" ;;
library)	library "$2" ;;
*)		echo "usage: abi.sh layout [64|32] | library FILE" >&2; exit 1 ;;
esac
