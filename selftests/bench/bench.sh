#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of make bench that runs in the VM, with the module loaded:
#
#	bench.sh [NAME...]	all benchmarks, or these
#
# Prints lines "NAME VALUE", and "# WORD" for whoever watches. Exit status: 1 if
# a benchmark failed.

# busybox has local, as dash does.
# shellcheck shell=dash

ALL='unit hit memory live close map traces'
CHUNK=$((2 << 20))
# With fewer chunks than that a ratio says how large a chunk is and little else.
MANY=64

# get KEY: a value of the last replay's report
get()
{
	sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" /tmp/replay
}

# load PARAMETERS: loads the module anew
load()
{
	rmmod devpool || exit
	# They are words.
	# shellcheck disable=SC2086
	insmod "$DEVPOOL_KO" $1 || exit
}

# replay PARAMETERS ARGUMENT...: with the module loaded so
replay()
{
	load "$1"
	shift
	# It has a progress bar for terminals.
	devpool-replay --json --keep-going "$@" >/tmp/replay 2>/tmp/errors
	[ -s /tmp/replay ] || { cat /tmp/errors >&2; status=1; }
}

# trace FILE NAME SCALE PERCENT: how much is resident, and whether so many
# percent more than what is live are enough for a device
trace()
{
	local live room

	replay "sysmem= null=64T" --scale "$3" "$1"
	live=$(get peak_live)
	[ -n "$live" ] || return
	room=$(((live * $4 / 100 + CHUNK - 1) / CHUNK))
	echo "frag.$2.live $live"
	if [ $room -ge $MANY ]; then
		echo "frag.$2.resident $(get peak_resident)"
	else
		echo "frag.$2.room $room"
		echo "frag.$2.chunks $(($(get peak_resident) / CHUNK))"
	fi
	echo "frag.$2.recycles $(get recycles)"
	if [ "$(get streams)" -gt 1 ]; then
		replay "sysmem= null=64T" --pool-per stream --scale "$3" "$1"
		echo "frag.$2.pools.resident $(get peak_resident)"
	fi
	replay "sysmem= null=$((room * CHUNK))" --scale "$3" "$1"
	echo "frag.$2.failed $(get failed)"
}

traces()
{
	local f name

	for f in traces/*.csv; do
		name=$(basename "$f" .csv | sed 's/[^A-Za-z0-9_-]/_/g')
		case $name in
		# A scratchpad of a device, with a peak of 1 MiB.
		minimalloc-*) trace "$f" "$name" 1024 112 ;;
		*) trace "$f" "$name" 1 105 ;;
		esac
	done
	load "$DEVPOOL_PARAMS"
}

status=0
cd "$(dirname "$0")" || exit
# shellcheck disable=SC2086
[ $# != 0 ] || set -- $ALL
for name; do
	echo "# $name"
	case $name in
	traces) traces ;;
	*) "./$name" || status=1 ;;
	esac
done
exit $status
