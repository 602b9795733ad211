#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds a debug kernel. Called by setup.sh, which puts it into the cache.
#
#	debug-kernel.sh NAME SOURCE FOLDER
#
# NAME is a file of selftests/debug, without .config; SOURCE the tree of a
# kernel's source. The configuration is tinyconfig with base.config and
# NAME.config on top; a symbol that these ask for and that did not take effect
# is an error. In FOLDER is then what a Debian kernel and its headers have,
# unpacked: boot/, lib/modules/RELEASE/, usr/src/linux-headers-RELEASE/ and the
# file release.

set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

name=$1
source=$2
folder=$3
debug=$TOP/selftests/debug
out=$(dirname "$folder")/build-$name
fragments=("$debug/base.config" "$debug/$name.config")

# Without what the caller's make passes down by itself.
kernel_make()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		KBUILD_BUILD_USER=devpool KBUILD_BUILD_HOST=devpool \
		make -s -C "$source" O="$out" -j"$(nproc)" "$@"
}

# What was asked for and is not there
missed()
{
	local line symbol

	grep -h -E '^(# )?CONFIG_' "${fragments[@]}" | while IFS= read -r line; do
		case $line in
		\#*)
			symbol=${line#\# }
			! grep -q "^${symbol%% *}=" "$out/.config" || echo "$line"
			;;
		*)
			grep -q -x -F -e "$line" "$out/.config" || echo "$line"
			;;
		esac
	done
}

mkdir -p "$out"
kernel_make tinyconfig
cat "${fragments[@]}" >>"$out/.config"
# It says that tinyconfig's values are replaced.
kernel_make olddefconfig 2>/dev/null
missed=$(missed)
if [ -n "$missed" ]; then
	say "this did not take effect in the kernel $name:"
	awk '{ print "  " $0 }' >&2 <<<"$missed"
	exit 1
fi
kernel_make bzImage modules

release=$(kernel_make kernelrelease)
headers=$folder/usr/src/linux-headers-$release
modules=$folder/lib/modules/$release
mkdir -p "$folder/boot" "$headers"
kernel_make run-command \
	KBUILD_RUN_COMMAND="+\$(srctree)/scripts/package/install-extmod-build $headers"
cp "$out/.config" "$headers/.config"
cp "$out/.config" "$folder/boot/config-$release"
cp "$out/System.map" "$folder/boot/System.map-$release"
cp "$out/arch/x86/boot/bzImage" "$folder/boot/vmlinuz-$release"
kernel_make modules_install INSTALL_MOD_PATH="$folder"
ln -sfn "../../../usr/src/linux-headers-$release" "$modules/build"
rm -rf "$modules/source" "$out"
depmod -b "$folder" "$release"
echo "$release" >"$folder/release"
