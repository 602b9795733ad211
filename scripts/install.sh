#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Puts what make install has staged into place, and takes it away again.
#
#	install.sh add STAGE MANIFEST
#	install.sh remove MANIFEST
#
# MANIFEST, a file below a prefix, says what was put there: a line "f PATH" for
# each file and "d PATH" for each folder that was not there before. DESTDIR goes
# before all names. What an older version has put there goes when a newer one
# does not have it.

set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

DESTDIR=${DESTDIR:-}

# entries KIND: paths of a manifest on standard input
entries()
{
	sed -n "s/^$1 //p"
}

# Folders go last, those in others first, and only those with nothing in them.
remove_entries()
{
	local path list

	list=$(cat)
	while IFS= read -r path; do
		rm -f "$DESTDIR$path"
	done < <(entries f <<<"$list")
	while IFS= read -r path; do
		[ ! -d "$DESTDIR$path" ] ||
			rmdir --ignore-fail-on-non-empty "$DESTDIR$path"
	done < <(entries d <<<"$list" | sort -r)
}

add()
{
	local stage=$1 manifest=$2 old='' path

	[ ! -f "$DESTDIR$manifest" ] || old=$(<"$DESTDIR$manifest")
	mkdir -p "$stage${manifest%/*}"
	{
		entries d <<<"$old" | sed 's/^/d /'
		(cd "$stage" && find . -mindepth 1 -type d -printf '/%P\n') | sort |
			while IFS= read -r path; do
			[ -d "$DESTDIR$path" ] || echo "d $path"
		done
		(cd "$stage" && find . ! -type d -printf 'f /%P\n') | sort
		echo "f $manifest"
	} >"$stage.new"
	mv "$stage.new" "$stage$manifest"
	# First, so that it names whatever an interrupted run has left.
	install -D -m 644 "$stage$manifest" "$DESTDIR$manifest"
	while IFS= read -r path; do
		[ -d "$DESTDIR$path" ] || install -d -m 755 "$DESTDIR$path"
	done < <(cd "$stage" && find . -mindepth 1 -type d -printf '/%P\n' | sort)
	while IFS= read -r path; do
		[ "$path" != "$manifest" ] || continue
		# A library in use is replaced, not written over.
		cp -dp --remove-destination "$stage$path" "$DESTDIR$path"
	done < <(entries f <"$stage$manifest")
	comm -23 <(entries f <<<"$old" | sort) <(entries f <"$stage$manifest" | sort) |
		sed 's/^/f /' | remove_entries
}

remove()
{
	[ -f "$DESTDIR$1" ] || die "$DESTDIR$1: nothing was installed by make install with this prefix"
	remove_entries <"$DESTDIR$1"
}

case ${1:-} in
add)	add "$2" "$3" ;;
remove)	remove "$2" ;;
*)	die "install.sh: add STAGE MANIFEST, or remove MANIFEST" ;;
esac
