# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the scripts of this tree share. To be sourced by bash.

# Exit status of a set-up that failed; 1 is left to failed tests.
# shellcheck disable=SC2034
EXIT_SETUP=4

# depmod and modinfo live in sbin, which is not on a plain user's PATH.
PATH=$PATH:/usr/sbin:/sbin
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# As root, without a home: some CI.
CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/devpool

say()
{
	echo "devpool: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

die_setup()
{
	say "set-up failed: $*"
	exit "$EXIT_SETUP"
}

# kernel_dir SERIES: the folder of the newest unpacked kernel of that series,
# resolved, so that a set-up that finds a newer one meanwhile changes nothing.
kernel_dir()
{
	readlink -e "$CACHE/kernels/$1"
}

kernel_release()
{
	cat "$(kernel_dir "$1")/release"
}

# kernel_kdir SERIES: what KDIR has to be to build a module for it.
kernel_kdir()
{
	echo "$(kernel_dir "$1")/usr/src/linux-headers-$(kernel_release "$1")"
}

kernel_vmlinuz()
{
	echo "$(kernel_dir "$1")/boot/vmlinuz-$(kernel_release "$1")"
}

# source_dir: the few files that come out of the kernel's source package.
source_dir()
{
	readlink -e "$CACHE/source"
}

ksft_dir()
{
	echo "$(source_dir)/tools/testing/selftests"
}

# copy_changed FROM TO: makes the folder TO equal to FROM, but leaves alone
# what is equal already (so that make rebuilds nothing for it) and what was
# built there. A file is compared, not dated: git and editors set any date.
copy_changed()
{
	local from=$1 to=$2 f

	mkdir -p "$to"
	while IFS= read -r -d '' f; do
		if ! cmp -s "$from/$f" "$to/$f"; then
			mkdir -p "$to/$(dirname "$f")"
			cp "$from/$f" "$to/$f"
		fi
	done < <(cd "$from" && find . -type f \
		 \( -name '*.[chS]' -o -name Kbuild -o -name '*.mk' \) \
		 ! -name '*.mod.c' -print0)
	while IFS= read -r -d '' f; do
		[ -e "$from/$f" ] || rm -f "$to/$f"
	done < <(cd "$to" && find . -type f -name '*.[chS]' ! -name '*.mod.c' -print0)
}

# failed_output FILE: out of a program's TAP, what stands before each result
# that is not ok, and what stands after the last result.
failed_output()
{
	awk '
		function put(from,  i) {
			for (i = n - from > 60 ? n - 60 : from; i < n; i++)
				print line[i]
		}
		{ line[n++] = $0 }
		/^not ok/ { put(0) }
		/^(not )?ok/ { n = 0 }
		END { put(0) }' "$1" | tail -n 200
}
