#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The part of make bench that runs in the VM, with the module loaded:
#
#	bench.sh NAME...
#
# Prints lines "NAME VALUE", or as scale.c says, "= KEY TEXT" for versions, and
# "# WORD" for whoever watches. Exit status: 1 if a benchmark failed.

# busybox has local, as dash does.
# shellcheck shell=dash

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

# model ARGUMENT...: bytes that PyTorch would have reserved
model()
{
	./torch "$@" | sed -n 's/^reserved \([0-9]*\) .*/\1/p'
}

# trace FILE NAME SCALE PERCENT: how much is resident, and whether so many
# percent more than what is live are enough for a device
trace()
{
	local live room peak classic expandable better

	replay "sysmem= null=64T" --scale "$3" "$1"
	live=$(get peak_live)
	[ -n "$live" ] || return
	peak=$(get peak_resident)
	room=$(((live * $4 / 100 + CHUNK - 1) / CHUNK))
	echo "frag.$2.live $live"
	echo "frag.$2.peak $peak"
	if [ $room -ge $MANY ]; then
		echo "frag.$2.resident $peak"
	else
		echo "frag.$2.few $peak"
		echo "frag.$2.room $room"
		echo "frag.$2.chunks $((peak / CHUNK))"
	fi
	echo "frag.$2.recycles $(get recycles)"
	classic=$(model --scale "$3" "$1")
	expandable=$(model --scale "$3" --expandable "$1")
	if [ -z "$classic" ] || [ -z "$expandable" ]; then
		status=1
		return
	fi
	better=$((classic < expandable ? classic : expandable))
	echo "frag.$2.classic $classic"
	echo "frag.$2.expandable $expandable"
	echo "frag.$2.better $better"
	echo "$live $peak $better" >>/tmp/means
	if [ "$(get streams)" -gt 1 ]; then
		replay "sysmem= null=64T" --pool-per stream --scale "$3" "$1"
		echo "streams.$2.live $live"
		echo "streams.$2.resident $(get peak_resident)"
		echo "streams.$2.classic $(model --streams --scale "$3" "$1")"
		echo "streams.$2.expandable $(model --streams --scale "$3" --expandable "$1")"
	fi
	replay "sysmem= null=$((room * CHUNK))" --scale "$3" "$1"
	echo "frag.$2.failed $(get failed)"
}

traces()
{
	local f name

	: >/tmp/means
	for f in traces/*.csv; do
		name=$(basename "$f" .csv | sed 's/[^A-Za-z0-9_-]/_/g')
		case $name in
		# A scratchpad of a device, with a peak of 1 MiB.
		minimalloc-*) trace "$f" "$name" 1024 112 ;;
		*) trace "$f" "$name" 1 105 ;;
		esac
	done
	awk '{ devpool += $2 / $1; torch += $3 / $1 }
		END { printf "mean.devpool %.4f\nmean.torch %.4f\n", devpool / NR, torch / NR }' \
		/tmp/means
	load "$DEVPOOL_PARAMS"
}

status=0
cd "$(dirname "$0")" || exit
if grep -q 'model name.*TCG' /proc/cpuinfo; then
	echo "= accelerator TCG"
else
	echo "= accelerator KVM"
fi
for name; do
	echo "# $name"
	case $name in
	traces) traces ;;
	*) "./$name" || status=1 ;;
	esac
done
exit $status
