#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the Debian packages that building and testing need, and fetches
# kernels into the cache. Kernels are unpacked, never installed: an installed
# image would rebuild an initramfs and change what this machine boots. So are
# their headers, since 6.12's depend on the image.
#
#	setup.sh		fetches what is missing, nothing else
#	setup.sh --update	also looks for newer kernels (make setup)
#	setup.sh --bench	also what only make bench needs
#	setup.sh --cached NAME	is that kernel in the cache? Fetches nothing
#
# KERNELS	the series that are needed (default: 6.1 6.12), or debug kernels:
#		a series and the name of a file in selftests/debug, as 6.12-kasan.
#		They are built from Debian's source, which takes a while
# SETUP=no	fetches and installs nothing, lists what is missing
#
# The cache (${XDG_CACHE_HOME:-~/.cache}/devpool):
#
#	unpacked/NAME-HASH	a kernel or the source files; HASH is that of the
#				packages' contents and of the way they are
#				unpacked, or configured and built
#	kernels/SERIES, source	links to the newest of them
#
# A folder is made under a temporary name and renamed, so what is there is whole.
# All of it may be deleted at any time. Exit status: 0, or 4 if something is
# missing and could not be had.

set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

KERNELS=${KERNELS-6.1 6.12}
SETUP=${SETUP:-yes}
UPDATE=no
[ "${1:-}" != --update ] || UPDATE=yes
DEBUG=$TOP/selftests/debug

# Counts up when what unpack_* leave behind changes: part of the key.
RECIPE=1

PACKAGES=(
	# the module: the compiler of both stock kernels, and what kbuild runs
	gcc gcc-12 libc6-dev make bc bison flex perl libelf-dev dwarves kmod xz-utils
	# library and tools; the headers are to be good C++ too, and good for 32 bits
	g++ gcc-multilib pkg-config abigail-tools
	# the VM
	qemu-system-x86 busybox-static cpio jq
	# make install, as its test looks at it
	dkms man-db
	# make lint
	sparse codespell shellcheck python3 mandoc groff-base
	# make docs
	python3-sphinx
)
# With a debug kernel: make coverage
DEBUG_PACKAGES=(gcovr)
# The plots of make bench
[ "${1:-}" != --bench ] || PACKAGES+=(gnuplot-nox)

# What is taken out of the kernel's source package: the harness of the tests, the
# kernel's own test of dma-heaps, headers that C libraries leave out, and what make lint
# and make docs run.
SOURCE=linux-source-6.12
SOURCE_FILES=(
	tools/testing/selftests/kselftest_harness.h
	tools/testing/selftests/kselftest.h
	tools/testing/selftests/run_kselftest.sh
	tools/testing/selftests/lib.mk
	tools/testing/selftests/kselftest
	tools/testing/selftests/dmabuf-heaps/dmabuf-heap.c
	include/uapi/drm/drm.h
	include/uapi/drm/drm_mode.h
	include/uapi/drm/vgem_drm.h
	scripts/checkpatch.pl
	scripts/spelling.txt
	scripts/const_structs.checkpatch
	scripts/kernel-doc
)

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die_setup "'$*' needs root"
	fi
}

missing_packages()
{
	local have p

	have=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' \
		 "${PACKAGES[@]}" 2>/dev/null || true) "
	for p in "${PACKAGES[@]}"; do
		case $have in
		*" installed:$p "*) ;;
		*) echo "$p" ;;
		esac
	done
}

is_debug()
{
	[[ $1 = *-* ]]
}

# recipe KERNEL: a hash of how a debug kernel is configured and built
recipe()
{
	{
		cat "$DEBUG/base.config" "$DEBUG/${1#*-}.config" "$TOP/scripts/debug-kernel.sh"
		gcc --version || true
	} 2>/dev/null | sha256sum | cut -c 1-12
}

# cached KERNEL: is it there, and as it is to be built now?
cached()
{
	[ -e "$CACHE/kernels/$1/release" ] || return
	! is_debug "$1" || [ "$(cat "$CACHE/kernels/$1/recipe")" = "$(recipe "$1")" ]
}

# Are all files of the source there that are taken by now?
source_is_whole()
{
	local f

	for f in release "${SOURCE_FILES[@]}"; do
		[ -e "$CACHE/source/$f" ] || return
	done
}

# One line for each thing that is not in the cache.
missing_files()
{
	local k

	for k in $KERNELS; do
		cached "$k" || echo "kernel $k"
	done
	source_is_whole || echo "files of $SOURCE"
}

apt_update()
{
	local out

	say "apt-get update"
	# apt takes a mirror that does not answer for a mere warning.
	if ! out=$(as_root apt-get update -qq -o Acquire::Retries=3 \
		   -o APT::Update::Error-Mode=any 2>&1); then
		echo "$out" >&2
		return 1
	fi
}

# The 6.12 kernels, and the newest 6.1, are in the suite bookworm-security,
# which debootstrap does not set up.
add_security()
{
	local key=/usr/share/keyrings/debian-archive-keyring.gpg
	local list=/etc/apt/sources.list.d/devpool-bookworm-security.list
	local uri opt=

	# shellcheck disable=SC2016
	uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' \
	      'Created-By: Packages' | sort -u |
	      awk '$2 ~ /^bookworm-security|^bookworm\/updates/ { print "have"; exit }
		   $2 == "bookworm" && !u { u = $1 }
		   END { if (u) print u }' | head -n 1)
	case $uri in
	have) return ;;
	'') die_setup "apt has no suite bookworm: this needs Debian 12" ;;
	esac
	uri=${uri%/}-security
	say "adding the suite bookworm-security of apt's own mirror: $list"
	[ ! -r $key ] || opt="[signed-by=$key] "
	echo "deb $opt$uri bookworm-security main" | as_root tee $list >/dev/null
	apt_update || true
	if [ -z "$(newest_image 6.12)" ]; then
		as_root rm -f $list
		die_setup "the mirror has no bookworm-security beside bookworm; add the suite to apt's sources by hand"
	fi
}

install_packages()
{
	local p

	mapfile -t p < <(missing_packages)
	[ ${#p[@]} -gt 0 ] || return 0
	say "installing: ${p[*]}"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends -o Acquire::Retries=3 \
		-o Dpkg::Use-Pty=0 "${p[@]}" </dev/null >"$TMP/apt.log" 2>&1 || {
		tail -n 20 "$TMP/apt.log" >&2
		die_setup "apt-get install failed"
	}
}

# newest_image SERIES: the package of the newest generic kernel. The unsigned
# one is preferred at the same version; both hold the same kernel.
newest_image()
{
	local s=${1//./\\.}

	apt-cache search --names-only "^linux-image-$s\.[0-9]+(\+deb12|-[0-9]+)-amd64(-unsigned)?\$" |
		cut -d ' ' -f 1 | sort -V | tail -n 1
}

# depends PACKAGE PATTERN: the package that it depends on
depends()
{
	local p

	p=$(apt-cache show --no-all-versions "$1" |
	    sed -n 's/^Depends: //p' | tr ',|' '\n' |
	    sed 's/^ *//; s/ .*//' | grep -E "^$2\$" | head -n 1) ||
		die_setup "$1 names no $2"
	echo "$p"
}

# key PACKAGE...: a hash of their contents and of how they are unpacked
key()
{
	local p

	for p; do
		apt-cache show --no-all-versions "$p" | sed -n 's/^SHA256: //p' | head -n 1
	done | { cat; echo "$RECIPE ${SOURCE_FILES[*]}"; } | sha256sum | cut -c 1-12
}

# download PACKAGE...: into $TMP/deb
download()
{
	rm -rf "$TMP/deb"
	mkdir "$TMP/deb"
	say "fetching: $*"
	# The sandbox user of apt may not write below a private home.
	(cd "$TMP/deb" && apt-get download -qq -o Acquire::Retries=3 \
	 -o APT::Sandbox::User="$(id -un)" "$@" >"$TMP/apt.log" 2>&1) || {
		tail -n 20 "$TMP/apt.log" >&2
		die_setup "apt-get download failed"
	}
}

# publish FOLDER NAME LINK: what is unpacked gets its name, whole
publish()
{
	mkdir -p "$CACHE/unpacked" "$(dirname "$CACHE/$3")"
	# Older than this script's atomic rename, or damaged by hand.
	rm -rf "$CACHE/unpacked/$2"
	sync -f "$1/release"
	mv -T "$1" "$CACHE/unpacked/$2"
	link "$2" "$3"
}

link()
{
	local up=

	case $2 in
	*/*) up=../ ;;
	esac
	ln -s "${up}unpacked/$1" "$TMP/link"
	mv -T "$TMP/link" "$CACHE/$2"
}

unpack_kernel()
{
	local series=$1 image release headers common kbuild name d m f

	image=$(newest_image "$series")
	[ -n "$image" ] || die_setup "apt knows no generic kernel $series"
	release=${image#linux-image-}
	release=${release%-unsigned}
	headers=linux-headers-$release
	common=$(depends "$headers" 'linux-headers-.*-common')
	kbuild=$(depends "$headers" 'linux-kbuild-.*')
	name=$release-$(key "$image" "$headers" "$common" "$kbuild")
	if [ -e "$CACHE/unpacked/$name/release" ]; then
		link "$name" "kernels/$series"
		return
	fi

	download "$image" "$headers" "$common" "$kbuild"
	d=$TMP/$name
	rm -rf "$d"
	mkdir "$d"
	for f in "$TMP"/deb/*.deb; do
		dpkg-deb -x "$f" "$d" || die_setup "cannot unpack ${f##*/}"
	done
	rm -rf "$TMP/deb" "${d:?}/usr/share"

	# The packages name /usr/src; the cache may be anywhere and may move.
	m=$d/usr/src/$headers/Makefile
	grep -q "^include /usr/src/$common/Makefile\$" "$m" ||
		die_setup "$headers has a Makefile of another shape"
	# shellcheck disable=SC2016
	sed -i "s|^include /usr/src/|include \$(dir \$(realpath \$(lastword \$(MAKEFILE_LIST))))../|" "$m"
	ln -sfn "../../../usr/src/$headers" "$d/lib/modules/$release/build"
	ln -sfn "../../../usr/src/$common" "$d/lib/modules/$release/source"
	depmod -b "$d" "$release" || die_setup "depmod failed"
	[ -s "$d/boot/vmlinuz-$release" ] || die_setup "$image holds no kernel"
	echo "$release" >"$d/release"
	publish "$d" "$name" "kernels/$series"
}

# The source is some 1.5 GB and goes when the kernel is built.
build_debug()
{
	local kernel=$1 name=${1#*-} source=linux-source-${1%%-*} d

	d=$kernel-$(key "$source")-$(recipe "$kernel")
	if [ -e "$CACHE/unpacked/$d/release" ]; then
		link "$d" "kernels/$kernel"
		return
	fi

	download "$source"
	say "building the kernel $kernel; with two processors this takes some 15 minutes"
	mkdir -p "$TMP/source" "$TMP/$d"
	dpkg-deb --fsys-tarfile "$TMP"/deb/*.deb |
		tar -xO "./usr/src/$source.tar.xz" | xz -dc -T0 |
		tar -x -C "$TMP/source" --strip-components=1 --exclude='*/Documentation/*/*' \
			--exclude='*/tools/testing' ||
		die_setup "cannot unpack $source"
	rm -rf "$TMP/deb"
	if ! "$TOP/scripts/debug-kernel.sh" "$name" "$TMP/source" "$TMP/$d" >"$TMP/build.log" 2>&1; then
		tail -n 30 "$TMP/build.log" >&2
		die_setup "the kernel $kernel does not build"
	fi
	recipe "$kernel" >"$TMP/$d/recipe"
	publish "$TMP/$d" "$d" "kernels/$kernel"
	rm -rf "$TMP/source"
}

unpack_source()
{
	local name d

	name=$SOURCE-$(key "$SOURCE")
	if [ -e "$CACHE/unpacked/$name/release" ]; then
		link "$name" source
		return
	fi

	download "$SOURCE"
	d=$TMP/$name
	rm -rf "$d"
	mkdir "$d"
	dpkg-deb --fsys-tarfile "$TMP"/deb/*.deb |
		tar -xO "./usr/src/$SOURCE.tar.xz" | xz -dc -T0 |
		tar -x -C "$d" --strip-components=1 "${SOURCE_FILES[@]/#/$SOURCE/}" ||
		die_setup "cannot unpack $SOURCE"
	rm -rf "$TMP/deb"
	echo "$SOURCE" >"$d/release"
	publish "$d" "$name" source
}

# Older kernels that no link names go, but not at once: a run that started
# before a newer one came may still use them.
prune()
{
	local d l used=

	for l in "$CACHE"/kernels/* "$CACHE/source"; do
		used="$used $(readlink -e "$l" || true) "
	done
	for d in "$CACHE"/unpacked/*; do
		case $used in
		*" $(readlink -e "$d") "*) continue ;;
		esac
		[ -z "$(find "$d" -maxdepth 0 -mtime +1)" ] || rm -rf "$d"
	done
}

main()
{
	local k missing debug=no

	for k in $KERNELS; do
		[[ $k =~ ^[0-9]+\.[0-9]+(-[a-z]+)?$ ]] ||
			die_setup "KERNELS: '$k' is not a kernel series such as 6.12"
		is_debug "$k" || continue
		[ -e "$DEBUG/${k#*-}.config" ] || die_setup "KERNELS: there is no debug kernel '$k'"
		debug=yes
	done
	[ $debug = no ] || PACKAGES+=("${DEBUG_PACKAGES[@]}")
	missing=$(missing_packages | sed 's/^/package /'; missing_files)
	if [ -z "$missing" ] && [ $UPDATE = no ]; then
		return
	fi
	if [ "$SETUP" = no ]; then
		[ -n "$missing" ] || return 0
		say "missing (SETUP=no, so nothing is fetched):"
		awk '{ print "  " $0 }' >&2 <<<"$missing"
		exit "$EXIT_SETUP"
	fi

	command -v apt-get >/dev/null || die_setup "no apt-get: this needs Debian 12"
	[ "$(dpkg --print-architecture)" = amd64 ] || die_setup "this needs amd64"
	mkdir -p "$CACHE" || die_setup "cannot make $CACHE"
	exec 9>"$CACHE/.lock"
	flock -n 9 || { say "waiting for another set-up"; flock 9; }
	# Left by a run that was killed: nobody else can be in here now.
	rm -rf "$CACHE"/tmp.*
	TMP=$(mktemp -d "$CACHE/tmp.XXXXXX")
	trap 'rm -rf "$TMP"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP

	# The other one may have done it all.
	missing=$(missing_packages; missing_files)
	if [ -z "$missing" ] && [ $UPDATE = no ]; then
		return
	fi
	# A source that does not answer may be one that nothing here needs.
	apt_update || say "not all of apt's sources answer; going on with what it has"
	add_security
	install_packages
	for k in $KERNELS; do
		if [ $UPDATE = yes ] || ! cached "$k"; then
			if is_debug "$k"; then
				build_debug "$k"
			else
				unpack_kernel "$k"
			fi
		fi
		say "kernel $k: $(kernel_release "$k")"
	done
	if [ $UPDATE = yes ] || ! source_is_whole; then
		unpack_source
	fi
	prune
}

if [ "${1:-}" = --cached ]; then
	cached "$2"
else
	main
fi
