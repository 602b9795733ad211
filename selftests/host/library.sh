#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of the library as others get it: builds and installs it into a folder
# of its own and looks from outside; compares the manual to it. No device, no module.
# Needs a C and a C++ compiler (CC, CXX), make, binutils, pkg-config and mandoc.
set -u

top=$(realpath "$(dirname "$0")/../..")
CC=${CC:-cc}
CXX=${CXX:-c++}
export LC_ALL=C
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
number=0
failed=0
# Also a prefix with what pkg-config has to pass on as it is.
prefix=$tmp/usr
header=$prefix/include/devpool.h
WARN="-Wall -Wextra -pedantic -Werror"

# result NAME: of the last command; what it printed is in $tmp/out. Its status is
# SKIP where something is missing here, which is in $tmp/out then.
SKIP=44
result()
{
	status=$?
	number=$((number + 1))
	if [ $status -eq $SKIP ]; then
		echo "ok $number - $1 # SKIP $(cat "$tmp/out")"
	elif [ $status -eq 0 ]; then
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

# same A B: what is in one of the files only is the outcome.
same()
{
	run diff "$1" "$2" && [ -s "$1" ]
}

cflags()
{
	PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@" libdevpool
}

echo "TAP version 13"
echo "1..21"

run env -u MAKEFLAGS -u MAKEOVERRIDES make -C "$top/lib" OUT="$tmp/out.d" PREFIX="$prefix" \
	WERROR=1 CC="$CC" all install
result "builds without a warning and installs"

cd "$tmp" || exit 1
version=$(cat "$top/VERSION")
major=${version%%.*}
minor=${version#*.}
minor=${minor%%.*}
so=$prefix/lib/libdevpool.so.$major

nm -D --defined-only "$so" | sed -n 's/.* T \([^@]*\)@@*.*/\1/p' | sort >exported
sed -n 's/^\t\(devpool[a-z_]*\);$/\1/p' "$top/lib/libdevpool.map" | sort >map
# Of the preprocessed header, what is declared and not defined.
echo '#include <devpool.h>' | $CC -E -P -I"$prefix/include" - | tr '\n' ' ' |
	sed 's/;/;\n/g' | sed -n 's/.*\<\(devpool_[a-z_]*\)(.*) *\(__attribute__.*\)\?;$/\1/p' |
	grep -v -e '^devpool_auto' -e '^devpool_snapshot_fn$' | sort -u >declared
same map exported
result "the map names what the library exports"
same declared exported
result "the header declares what the library exports"

run nm -D --defined-only "$so"
[ "$(grep -c -v -e " T devpool_.*@@*DEVPOOL_[0-9.]*\$" -e ' A DEVPOOL_' out)" = 0 ]
result "nothing else is exported, and each name has a version"

nm -D --defined-only "$so" | sed -n 's/.* A //p' >nodes
echo "DEVPOOL_$major.$minor" >wanted
tail -n 1 nodes >last
same last wanted
result "the newest node of the map is the version's"

readelf -d "$so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' >soname
echo "libdevpool.so.$major" >wanted
same soname wanted && [ "$(readlink "$prefix/lib/libdevpool.so")" = "libdevpool.so.$major" ]
result "soname and link have the major number only"

mkdir -p other/lib
cp "$top"/lib/*.[ch] "$top/lib/Makefile" "$top/lib/libdevpool.pc.in" other/lib/
cp -r "$top/lib/include" other/lib/
cp -r "$top/uapi" "$top/VERSION" other/
sed 's/^DEVPOOL_[0-9.]*/DEVPOOL_9.9/' "$top/lib/libdevpool.map" >other/lib/libdevpool.map
! run env -u MAKEFLAGS make -C other/lib OUT="$tmp/other/out" CC="$CC" &&
	grep -q 'does not end in' out
result "a map without the version's node does not build"

run nm --defined-only -g "$prefix/lib/libdevpool.a"
[ "$(sed -n 's/.* [A-Z] //p' out | grep -c -v '^devpool_')" = 0 ]
result "the archive has no name outside devpool_"

bad=0
for std in c99 gnu11 c17; do
	echo '#include <devpool.h>' >alone.c
	# shellcheck disable=SC2086
	$CC $WARN -std=$std -I"$prefix/include" -fsyntax-only alone.c >>log 2>&1 || bad=1
done
cp log out
[ $bad = 0 ]
result "the header compiles alone as C"

: >log
bad=0
for std in c++11 c++17 gnu++20; do
	cat >alone.cc <<'END'
#include <devpool.h>
int main()
{
	struct devpool_pool_id id = devpool_pool_id(nullptr);
	struct devpool_info info;
	struct devpool *dev = nullptr;

	return devpool_info(dev, &info) == -22 && id.second == 0 ? 0 : 1;
}
END
	# shellcheck disable=SC2086
	$CXX $WARN -std=$std -I"$prefix/include" -o alone alone.cc \
		-L"$prefix/lib" -ldevpool >>log 2>&1 &&
		LD_LIBRARY_PATH=$prefix/lib ./alone >>log 2>&1 || bad=1
done
cp log out
if ! command -v "$CXX" >/dev/null; then
	bad=$SKIP
	echo "no C++ compiler ($CXX)" >out
fi
(exit "$bad")
result "the header compiles and links as C++"

cat >unused.c <<'END'
#include <devpool.h>
void f(struct devpool *dev) { devpool_free(dev, 0); }
END
! run $CC -I"$prefix/include" -Werror=unused-result -c unused.c && grep -q devpool_free out
result "a result that nobody looks at is a warning"

: >out
while read -r f; do
	awk -v f="$f" '
	$0 == "/**"			{ getline; doc = $0; ret = 0; next }
	/^ \* Return:/			{ ret = 1 }
	$0 ~ "[ *]" f "\\(" && !/^ \*/ && !seen++ { found = index(doc, " " f "() - ") && (ret || /^void/) }
	END				{ if (!found) print f ": no kernel-doc, or none of what it returns" }
	' "$header" >>out
done <exported
[ -s exported ] && [ ! -s out ]
result "every function has its kernel-doc"

cat >bare.c <<'END'
#include <devpool.h>
int main(void) { return devpool_fd(0) == -22 ? 0 : 1; }
END
# shellcheck disable=SC2046
run $CC bare.c -o bare $(cflags --cflags --libs) &&
	run env LD_LIBRARY_PATH="$prefix/lib" ./bare &&
	run $CC -static bare.c -o bare $(cflags --cflags --libs --static) && run ./bare &&
	run test "$(cflags --modversion)" = "$version"
result "pkg-config says how to build, shared and static"

# shellcheck disable=SC2086,SC2046
run $CC -Wall -Wextra -Werror "$top/lib/examples/first.c" -o first $(cflags --cflags --libs) &&
	run test "$(wc -l <"$top/lib/examples/first.c")" -le 20
result "the example builds against what is installed, and has at most 20 lines"

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$top/README.md" >readme.c
same "$top/lib/examples/first.c" readme.c
result "README.md shows the example as it is"

LD_LIBRARY_PATH=$prefix/lib DEVPOOL_DEVICE=$tmp/none ./first >out 2>&1
[ $? = 1 ] && [ ! -s out ]
result "without a device it fails, and the library prints nothing"

# shellcheck disable=SC2086,SC2046
run $CXX $WARN -std=c++17 "$top/lib/examples/raii.cc" -o raii $(cflags --cflags --libs) &&
	! LD_LIBRARY_PATH=$prefix/lib DEVPOOL_DEVICE=$tmp/none ./raii >out 2>&1 &&
	grep -qx 'No such file or directory' out && run test "$(wc -l <"$top/lib/examples/raii.cc")" -le 40
result "the C++ example builds, throws without a device, and has at most 40 lines"

# The manual. page NAME: where it is written, through .so
man=$top/Documentation/man
page()
{
	target=$(sed -n 's/^\.so //p' "$man/man3/$1.3")
	echo "$man/${target:-man3/$1.3}"
}

# rendered PAGE: as it is read, with lines as long as they like to be
rendered()
{
	mandoc -T ascii -O width=1000 "$1" | sed "s/.$(printf '\b')//g"
}

: >out
while read -r f; do
	[ -e "$man/man3/$f.3" ] || { echo "$f has no page" >>out; continue; }
	[ -e "$(page "$f")" ] || { echo "$f.3 names a page that is not there" >>out; continue; }
	rendered "$(page "$f")" | sed -n '/^NAME/,/^SYNOPSIS/p' | grep -qw "$f" ||
		echo "$f is not among the names of its page" >>out
done <exported
[ -s exported ] && [ ! -s out ]
result "every function has its page of the manual"

: >out
for p in "$man"/man3/*.3; do
	f=$(basename "$p" .3)
	grep -qx "$f" exported || [ "$f" = libdevpool ] ||
		echo "$f.3: there is no such function" >>out
done
[ ! -s out ]
result "there is no page without its function"

# prototypes: those of the text on stdin, each in a line
prototypes()
{
	grep -v '^#' | tr -s '\n\t ' ' ' | sed 's/;/;\n/g' | sed -n \
		-e 's/ *__attribute__((warn_unused_result))//' -e 's/^.*[{}>"] *//' \
		-e 's/^ *//' -e '/^\(int\|void\|struct\|typedef\) .*devpool_.*);$/p'
}
echo '#include <devpool.h>' | $CC -E -P -I"$prefix/include" - | prototypes |
	grep -v '^static' | sort -u >header.proto
for p in "$man"/man3/*.3; do
	[ "$(page "$(basename "$p" .3)")" != "$p" ] ||
		rendered "$p" | sed -n '/^SYNOPSIS/,/^DESCRIPTION/p' | prototypes
done | sort >man.proto
same header.proto man.proto
result "each prototype is in the manual, once and as in the header"

: >out
checked=0
for p in "$man"/man3/*.3; do
	sed -n '/^\.SH EXAMPLES/,$p' "$p" | sed -n '/^\.EX/,/^\.EE/p' | grep -v '^\.E' |
		sed -e 's/\\-/-/g' -e 's/\\e/\\/g' >example.c
	[ -s example.c ] || continue
	checked=$((checked + 1))
	# shellcheck disable=SC2086,SC2046
	$CC -Wall -Wextra -Werror -c example.c -o example.o $(cflags --cflags) >>out 2>&1 ||
		echo "the example of $p does not compile" >>out
done
[ $checked -ge 5 ] && [ ! -s out ]
result "the examples of the manual compile"

[ $failed -eq 0 ] && [ $number -eq 21 ]
