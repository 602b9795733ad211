#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Gives the module to dkms, which builds it for the running kernel now and for
# each new kernel when that is installed.
#
#	dkms.sh add | remove
#
# DKMSFLAGS	more for each call of dkms, such as --dkmstree FOLDER
# DKMSBUILD	more for the one that builds and installs, such as -k VERSION
# DKMSSRC	where dkms looks for sources (/usr/src)

set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

DKMSSRC=${DKMSSRC:-/usr/src}
VERSION=$(<"$TOP/VERSION")
SOURCE=$DKMSSRC/devpool-$VERSION

run()
{
	# Flags are words.
	# shellcheck disable=SC2086
	dkms "$@" -m devpool -v "$VERSION" ${DKMSFLAGS:-}
}

is_added()
{
	[ -n "$(run status)" ]
}

# What the build needs; a tree has more, such as what was built in it.
copy_source()
{
	rm -rf "$SOURCE"
	install -d -m 755 "$SOURCE"
	cd "$TOP"
	find Kbuild VERSION dkms.conf COPYING LICENSES kmod uapi -type f \
		\( ! -path '*/*' -o -path 'LICENSES/*' -o -name '*.[ch]' \) \
		-exec install -D -m 644 {} "$SOURCE/{}" \;
}

remove()
{
	! is_added || run remove --all
	rm -rf "$SOURCE"
}

command -v dkms >/dev/null || die "dkms is not there: apt-get install dkms"
case ${1:-} in
add)
	remove
	copy_source
	run add
	# shellcheck disable=SC2086
	run install ${DKMSBUILD:-}
	;;
remove)
	remove
	;;
*)
	die "dkms.sh: add or remove"
	;;
esac
