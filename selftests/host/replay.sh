#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of what devpool-replay refuses before it plays anything, on this
# machine: no device, no module. BUILD names the build folder.
set -u

here=$(dirname "$(realpath "$0")")
BUILD=$(realpath "${BUILD:-$here/../../build}")
replay=$BUILD/tools/static/devpool-replay
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
cd "$tmp" || exit 1
export DEVPOOL_DEVICE="$tmp/none"
number=0
failed=0
planned=41

echo "TAP version 13"
if ! [ -x "$replay" ]; then
	echo "Bail out! $replay is not built"
	exit 1
fi
echo "1..$planned"

# wants STATUS TEXT NAME ARGUMENT...: ends so, having said the text and no
# result
wants()
{
	want=$1
	text=$2
	name=$3
	shift 3
	timeout 20 "$replay" "$@" >out 2>err </dev/null
	status=$?
	number=$((number + 1))
	if [ $status -eq "$want" ] && grep -q -F -e "$text" err && [ ! -s out ]; then
		echo "ok $number - $name"
	else
		failed=$((failed + 1))
		echo "not ok $number - $name"
		echo "# status $status, wanted $want and '$text'"
		sed 's/^/# /' out err
	fi
}

# refuses LINE TEXT NAME TRACE
refuses()
{
	printf '%b' "$4" >trace.csv
	wants 2 "trace.csv:$1: $2" "$3" trace.csv
}

# accepts NAME TRACE: it gets as far as the device, which is not there
accepts()
{
	printf '%b' "$2" >trace.csv
	wants 1 "No such file" "$1" trace.csv
}

refuses 0 "the trace has no events" "an empty file" ''
refuses 2 "the trace has no events" "a file of comments" '# one\n# two\n'
refuses 1 "not a line" "a line of something else" 'hello\n'
refuses 1 "not a line" "an unknown operation" 'x,1,1,0\n'
refuses 3 "not a line" "white space" '# c\na,1,1,0\n a,2,1,0\n'
refuses 1 "the id" "an id that is no number" 'a,one,1,0\n'
refuses 1 "the id" "an id that is empty" 'a,,1,0\n'
refuses 1 "the id" "an id below 0" 'a,-1,1,0\n'
refuses 1 "the id" "an id above 64 bits" 'a,18446744073709551616,1,0\n'
refuses 1 "the size" "a size of 0" 'a,1,0,0\n'
refuses 1 "the size" "a size above 63 bits" 'a,1,9223372036854775808,0\n'
refuses 1 "the size" "a line with too few columns" 'a,1,5\n'
refuses 1 "the stream" "a stream that is no number" 'a,1,1,x\n'
refuses 1 "the stream" "a line with too many columns" 'a,1,1,0,0\n'
refuses 1 "the stream" "a line with something behind it" 'a,1,1,0 \n'
refuses 1 "a NUL byte" "a NUL byte" 'a,1,1,0\0000\n'
refuses 2 "the id was allocated before" "an id allocated twice" 'a,1,1,0\na,1,1,0\n'
refuses 3 "the id was allocated before" "an id used again" 'a,1,1,0\nf,1,1,0\na,1,1,0\n'
refuses 2 "the id was never allocated" "a free of nothing" 'a,1,1,0\nf,2,1,0\n'
refuses 3 "the id was freed before" "a free of what was freed" 'a,1,1,0\nf,1,1,0\nf,1,1,0\n'
refuses 2 "size or stream is not that of" "a free of another size" 'a,1,1,0\nf,1,2,0\n'
refuses 2 "size or stream is not that of" "a free on another stream" 'a,1,1,0\nf,1,1,1\n'
accepts "a proper trace, ids and streams as large as they get" \
	'# c\na,18446744073709551615,9223372036854775807,4294967294\na,0,1,0\nf,0,1,0\n'
accepts "empty lines, lines that end as on Windows, no newline at the end" \
	'a,1,1,0\r\n\r\n\nf,1,1,0'
wants 2 "usage" "no file"
wants 2 "usage" "two files" trace.csv trace.csv
wants 2 "No such file" "a file that is not there" none.csv
wants 2 "Try" "an unknown option" --nonsense trace.csv
wants 2 "--scale" "a scale of 0" --scale 0 trace.csv
wants 2 "--scale" "a scale divided by 0" --scale 1/0 trace.csv
wants 2 "--scale" "a scale of another kind" --scale 2/3 trace.csv
wants 2 "--pool-per" "pools for something else" --pool-per thread trace.csv
wants 2 "--delay" "a delay that is no number" --streams --delay 1s trace.csv
wants 2 "--delay" "a delay above 32 bits" --streams --delay 4294967296 trace.csv
wants 2 "--seed" "a seed that is no number" --streams --seed '' trace.csv
wants 2 "--seed" "a seed above 64 bits" --streams --seed 18446744073709551616 trace.csv
wants 2 "--delay is of no use" "a delay without streams" --delay 1 trace.csv
wants 2 "--seed is of no use" "a seed without streams" --seed 1 trace.csv
printf 'a,1,3,0\nf,1,3,0\n' >trace.csv
wants 1 "No such file" "streams, delay and seed as large as they get" \
	--streams --delay 4294967295 --seed 18446744073709551615 trace.csv
printf 'a,1,3,0\na,2,3,0\n' >trace.csv
wants 2 "too large" "sizes beyond 64 bits" --scale 9223372036854775807 trace.csv
wants 2 "alive" "a sum beyond 64 bits" --scale 4611686018427387904 trace.csv

[ $failed -eq 0 ] && [ $number -eq $planned ]
