#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Replays every trace in $TRACES four times:
#
#	at full size, on a device without memory: how much more than what was
#	live at once was resident
#	again, on a device that is hardly larger than that: no request may fail
#	divided until it fits into real memory: every page is tagged, and the
#	tag verified before the free
#	the same with its streams, which go on using what is freed: no memory goes to
#	another stream, or is changed, before they are done
#
# Loads $DEVPOOL_KO anew for each, and with $DEVPOOL_PARAMS at the end.

# busybox has local, as dash does.
# shellcheck shell=dash

CHUNK=$((2 << 20))
MEMORY=$((192 << 20))
number=0
failed=0

load()
{
	[ ! -e /sys/module/devpool ] || rmmod devpool || exit
	# Parameters are words.
	# shellcheck disable=SC2086
	insmod "$DEVPOOL_KO" $1
}

# get KEY: a value of the last replay's report
get()
{
	sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" /tmp/replay
}

replay()
{
	# Its progress is for a terminal, which the tests' output happens to be.
	devpool-replay --json "$@" >/tmp/replay 2>/tmp/errors
}

# result NAME COMMAND...: one line of TAP
result()
{
	local name=$1 verdict=ok

	shift
	if ! "$@"; then
		verdict="not ok"
		failed=1
	fi
	sed 's/^/# /' /tmp/errors /tmp/replay
	number=$((number + 1))
	echo "$verdict $number $name"
}

# chunks BYTES PERMILLE: so many bytes more or less, in whole chunks
chunks()
{
	echo $((($1 * $2 / 1000 + CHUNK - 1) / CHUNK * CHUNK))
}

# ratio PERMILLE SCALE FILE: peak resident over peak live
ratio()
{
	load "sysmem= null=64T" && replay --scale "$2" "$3" || return
	[ "$(get failed)" = 0 ] &&
		[ "$(get peak_resident)" -le "$(chunks "$(get peak_live)" "$1")" ]
}

# tight PERMILLE SCALE FILE: on a device of that much
tight()
{
	load "sysmem= null=$(chunks "$(get peak_live)" "$1")" &&
		replay --keep-going --scale "$2" "$3" && [ "$(get failed)" = 0 ]
}

# contents PEAK FILE: in real memory
contents()
{
	local scale=$((($1 + MEMORY - 1) / MEMORY))

	load "sysmem=$((MEMORY + (32 << 20)))" && replay --check --scale "1/$scale" "$2" || return
	[ "$(get failed)" = 0 ] && [ "$(get damaged)" = 0 ]
}

# streams PEAK FILE: the same, with work that is done later
streams()
{
	local scale=$((($1 + MEMORY / 2 - 1) / (MEMORY / 2)))

	load "sysmem=$((MEMORY + (32 << 20)))" &&
		replay --check --streams --delay 200 --scale "1/$scale" "$2" || return
	[ "$(get failed)" = 0 ] && [ "$(get damaged)" = 0 ] && [ "$(get overlaps)" = 0 ] &&
		[ "$(get points)" -gt 0 ]
}

set -- "$TRACES"/*.csv
if [ ! -e "$1" ]; then
	echo "1..0 # SKIP no traces"
	exit 4
fi
echo "1..$(($# * 4))"
for file; do
	name=${file##*/}
	name=${name%.csv}
	case $name in
	# A scratchpad of a device, with a peak of 1 MiB.
	minimalloc-*) scale=1024 most=1100 room=1120 ;;
	*) scale=1 most=1050 room=1050 ;;
	esac
	result "$name: resident at most $most permille of live" ratio $most $scale "$file"
	peak=$(($(get peak_live) / scale))
	result "$name: in $room permille of live" tight $room $scale "$file"
	result "$name: contents" contents $peak "$file"
	result "$name: streams" streams $peak "$file"
done
load "$DEVPOOL_PARAMS"
[ $failed = 0 ]
