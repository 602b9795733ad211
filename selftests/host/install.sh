#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests make install, uninstall, dkms, and the layout of make -C selftests install,
# each into a folder of its own. Nothing on this machine is changed.

set -u -o pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

series=${KERNELS:-6.12}
series=${series##* }
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
number=0
failed=0
version=$(<"$TOP/VERSION")
major=${version%%.*}

# result NAME COMMAND...: one line of TAP; what the command prints is kept in
# $tmp/out, and shown if it fails. 44 from it is a skip, for the reason there.
SKIP=44
result()
{
	local name=$1 status=0

	shift
	"$@" >"$tmp/out" 2>&1 || status=$?
	number=$((number + 1))
	case $status in
	0)	echo "ok $number - $name" ;;
	"$SKIP") echo "ok $number - $name # SKIP $(tail -n 1 "$tmp/out")" ;;
	*)	echo "not ok $number - $name"
		failed=$((failed + 1))
		sed 's/^/# /' "$tmp/out"
		;;
	esac
}

# Without what the caller's make passes down by itself
top_make()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u DESTDIR -u PREFIX \
		make --no-print-directory -C "$TOP" "$@"
}

# What there is below a folder
tree()
{
	(cd "$1" && find . -mindepth 1 -printf '%y %m %p %l\n' | sort -k 3)
}

# An umask that keeps others out must not keep them from what is installed.
install_there()
{
	(umask 077 && top_make install DESTDIR="$1" PREFIX="$2")
}

# check_files DESTDIR PREFIX: the names of what has to be there, and no others
check_files()
{
	local page dir=$1$2

	{
		printf '%s\n' bin/devpool{-record,-replay,ctl} include/{,linux/}devpool.h \
			lib/libdevpool.{a,so} lib/pkgconfig/libdevpool.pc \
			lib/devpool/{devpool-record.so,manifest} lib/udev/rules.d/60-devpool.rules \
			share/bash-completion/completions/devpoolctl
		(cd "$dir/lib" && printf 'lib/%s\n' libdevpool.so."$major"*)
		for page in "$TOP"/Documentation/man/man*/*.[0-9]; do
			echo "share/man/${page#"$TOP/Documentation/man/"}"
		done
	} | sort >"$tmp/wanted"
	(cd "$dir" && find . ! -type d -printf '%P\n' | sort) >"$tmp/there"
	diff "$tmp/wanted" "$tmp/there" || return
	# All is for everybody to read, programs are to be run.
	! find "$dir" -type d ! -perm 755 -o -type f ! -perm -444 | grep . &&
		! find "$dir/bin" ! -perm 755 -type f | grep . &&
		[ "$(readelf -d "$dir/lib/libdevpool.so" |
		     sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" = "libdevpool.so.$major" ] &&
		[ -f "$dir/lib/libdevpool.so.$major" ]
}

# build DESTDIR PREFIX OPTION...: the example, by what pkg-config says and no more
build()
{
	local dest=$1 dir=$1$2 flags link=

	shift 2
	[ $# = 0 ] || link=-static
	flags=$(PKG_CONFIG_PATH=$dir/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest \
		pkg-config --cflags --libs "$@" libdevpool) || return
	cp "$TOP/lib/examples/first.c" "$tmp/first.c"
	# Flags are words.
	# shellcheck disable=SC2086
	(cd "$tmp" && gcc $link -Wall -Wextra -Werror -o first first.c $flags)
}

# It has no device: it gets as far as that.
run_example()
{
	local status=0

	LD_LIBRARY_PATH=$1$2/lib DEVPOOL_DEVICE=$tmp/none "$tmp/first" || status=$?
	[ $status = 1 ]
}

check_tools()
{
	local bin=$1$2/bin

	export LD_LIBRARY_PATH=$1$2/lib
	[ "$("$bin/devpoolctl" --version)" = "devpoolctl $version" ] &&
		"$bin/devpool-replay" --help >/dev/null &&
		"$bin/devpool-record" -o "$tmp/record.csv" -- sh -c 'exit 0' &&
		grep -q '^# devpool-record' "$tmp/record.csv"
}

# Each page is found by its name, and has nothing that troff complains of.
check_pages()
{
	local page name target bad=0

	for page in "$TOP"/Documentation/man/man*/*.[0-9]; do
		name=$(basename "${page%.*}")
		# Some only say where what they name is described.
		target=$(sed -n 's/^\.so //p' "$page")
		[ "$(man -M "$1$2/share/man" -w "${page##*.}" "$name")" = \
			"$1$2/share/man/${target:-${page#"$TOP/Documentation/man/"}}" ] || bad=1
		man -M "$1$2/share/man" --warnings=w -P cat "${page##*.}" "$name" 2>&1 >/dev/null |
			grep . && bad=1
	done
	return $bad
}

# The rule is about the class that the module makes, and udev looks there.
check_udev()
{
	local rules=$1$2/lib/udev/rules.d/60-devpool.rules

	grep -q '^SUBSYSTEM=="devpool", KERNEL=="devpool\[0-9\]\*", GROUP="[a-z]*", MODE="0660"$' "$rules" &&
		grep -q 'devpool_class_create("devpool")' "$TOP/kmod/device.c"
}

# offers WORD...: what bash offers behind a line of these
offers()
{
	bash -c '
	compopt() { :; }
	. "$1"
	shift
	COMP_LINE="devpoolctl $*"
	COMP_POINT=${#COMP_LINE}
	_devpoolctl
	echo "${COMPREPLY[*]}"' - "$dest$prefix/share/bash-completion/completions/devpoolctl" "$@"
}

check_completion()
{
	[ "$(offers '')" = "list info pools stats trim snapshot --help --version" ] &&
		[ "$(offers s)" = "stats snapshot" ] &&
		[ "$(offers stats --w)" = "--watch --watch=" ] &&
		[ "$(offers trim -)" = "--help" ]
}

check_commands_completed()
{
	local c

	# What the program has is what is offered.
	for c in $(LD_LIBRARY_PATH=$dest$prefix/lib "$dest$prefix/bin/devpoolctl" --help |
		   sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		[ "$(offers "$c")" = "$c" ] || { echo "$c is not offered"; return 1; }
	done
}

uninstall_there()
{
	top_make uninstall DESTDIR="$1" PREFIX="$2" && ! find "$1" -mindepth 1 | grep .
}

# What was there before stays as it was, folders with nothing in them too.
uninstall_leaves_others()
{
	local dest=$tmp/shared

	mkdir -p "$dest"/usr/{bin,include,lib/pkgconfig} "$dest/usr/share/man/man1"
	echo other >"$dest/usr/bin/other"
	tree "$dest" >"$tmp/before"
	install_there "$dest" /usr || return
	# A newer version over an older one that had another file
	mkdir "$dest/usr/share/man/man7"
	echo old >"$dest/usr/share/man/man7/devpool-old.7"
	printf '%s\n' 'd /usr/share/man/man7' 'f /usr/share/man/man7/devpool-old.7' \
		>>"$dest/usr/lib/devpool/manifest"
	install_there "$dest" /usr || return
	[ ! -e "$dest/usr/share/man/man7/devpool-old.7" ] || return
	echo "user's" >"$dest/usr/lib/devpool/of-a-user"
	top_make uninstall DESTDIR="$dest" PREFIX=/usr || return
	[ "$(cat "$dest/usr/lib/devpool/of-a-user")" = "user's" ] || return
	rm -r "$dest/usr/lib/devpool"
	tree "$dest" | diff "$tmp/before" -
}

uninstall_of_nothing()
{
	mkdir -p "$tmp/empty"
	! top_make uninstall DESTDIR="$tmp/empty" && ! find "$tmp/empty" -mindepth 1 | grep .
}

# dkms builds what make dkms gives it, for a kernel that is not installed.
build_by_dkms()
{
	local release flags kernel built

	command -v dkms >/dev/null || { echo "no dkms"; return $SKIP; }
	[ "$(id -u)" = 0 ] || { echo "dkms installs for root only"; return $SKIP; }
	release=$(kernel_release "$series")
	mkdir -p "$tmp/dkms"/{tree,src,own,modules/"$release"}
	flags="--dkmstree $tmp/dkms/tree --sourcetree $tmp/dkms/src --installtree $tmp/dkms/modules"
	kernel="-k $release -a x86_64 --kernelsourcedir $(kernel_kdir "$series") --no-depmod"
	# Keys to sign with, which it may make, do not stay on this machine either.
	unshare -m sh -c '
	[ ! -d /var/lib/dkms ] || mount --bind "$1/own" /var/lib/dkms || exit
	make --no-print-directory -C "$2" dkms DKMSSRC="$1/src" DKMSFLAGS="$3" DKMSBUILD="$4"' \
		- "$tmp/dkms" "$TOP" "$flags" "$kernel" || {
		find "$tmp/dkms/tree" -name make.log -exec cat {} \;
		return 1
	}
	built=$(find "$tmp/dkms/modules" -name 'devpool.ko*')
	[ "$(modinfo -F version "$built")" = "$version" ] &&
		[[ $(modinfo -F vermagic "$built") = "$release "* ]] || return
	top_make dkms-remove DKMSSRC="$tmp/dkms/src" DKMSFLAGS="$flags" || return
	! find "$tmp/dkms"/{src,modules} -mindepth 1 -name '*devpool*' | grep .
}

# Where it was built for that kernel already, as that is the one place that make
# knows.
modules_installed()
{
	local release

	release=$(kernel_release "$series")
	top_make -C "$TOP/build/$release" -f "$TOP/Makefile" KDIR="$(kernel_kdir "$series")" \
		INSTALL_MOD_PATH="$tmp/modules" DEPMOD=true modules_install || return
	find "$tmp/modules/lib/modules/$release" -name 'devpool.ko*' | grep .
}

# The kernel's own run_kselftest.sh runs what make -C selftests install makes.
kselftest_installed()
{
	local to=$tmp/kselftest

	top_make -C selftests install OUT="$TOP/build/selftests" LIBOUT="$TOP/build/lib" \
		KSFT_DIR="$(ksft_dir)" INSTALL_PATH="$to" || return
	"$to/run_kselftest.sh" --list | sed 's/^devpool://' | sort >"$tmp/listed"
	sed -e '/^#/d' -e 's/[[:space:]].*//' "$TOP/selftests/tests.list" | sort |
		diff - "$tmp/listed"
}

kselftest_runs()
{
	KERNELS=$series FILES="$tmp/kselftest" PARAMS=sysmem=64M VM_CMD='
		ln -s /proc/self/fd/1 /dev/stdout
		cd kselftest && ./run_kselftest.sh -t devpool:info' \
		"$TOP/selftests/vm/run.sh" >"$tmp/ksft" 2>&1 || { cat "$tmp/ksft"; return 1; }
	cat "$tmp/ksft"
	grep -q '^# ok 1 ' "$tmp/ksft" && grep -q '^ok 1 selftests: devpool: info$' "$tmp/ksft"
}

echo "TAP version 13"
echo "1..$(grep -c '^result "' "$0")"

dest=$tmp/dest
prefix=/usr/local
mkdir "$dest"
result "installs" install_there "$dest" $prefix
result "the files that are to be there are, and no others" check_files "$dest" $prefix
result "the example builds by pkg-config alone" build "$dest" $prefix
result "and runs" run_example "$dest" $prefix
result "it builds statically too" build "$dest" $prefix --static
result "the tools run from there" check_tools "$dest" $prefix
result "the man pages are found, and are sound" check_pages "$dest" $prefix
result "the udev rule is for the module's class" check_udev "$dest" $prefix
result "bash completes" check_completion
result "every command is completed" check_commands_completed
result "uninstalls, and no file or folder is left" uninstall_there "$dest" $prefix
result "what others have there stays" uninstall_leaves_others
result "nothing to uninstall is an error" uninstall_of_nothing
result "modules_install installs the module" modules_installed
result "dkms builds and installs the module, and removes it" build_by_dkms
result "selftests install in the layout of kselftest" kselftest_installed
result "run_kselftest.sh runs one of them" kselftest_runs
[ $failed = 0 ]
