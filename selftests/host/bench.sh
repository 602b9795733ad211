#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# TAP test of what make bench says: the model of PyTorch's allocator against the
# sizes that its rules give, and that the report takes nothing for met that is
# not. On this machine: no device, no module. BUILD names the build folder.
set -u

here=$(dirname "$(realpath "$0")")
BUILD=$(realpath "${BUILD:-$here/../../build}")
torch=$BUILD/selftests/bench/torch
bench=$here/../bench
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
cd "$tmp" || exit 1
number=0
failed=0
planned=67

echo "TAP version 13"
if ! [ -x "$torch" ]; then
	echo "Bail out! $torch is not built"
	exit 1
fi
if ! command -v jq >/dev/null; then
	echo "Bail out! jq is not installed"
	exit 1
fi
echo "1..$planned"

# is GOT WANTED NAME
is()
{
	number=$((number + 1))
	if [ "$1" = "$2" ]; then
		echo "ok $number - $3"
	else
		failed=$((failed + 1))
		echo "not ok $number - $3"
		printf 'got %s, wanted %s\n' "$1" "$2" | sed 's/^/# /'
	fi
}

# size BYTES WANTED [PADDED]: block, segment and cached rest of a request, and
# the same with torch_npu's 32 bytes
size()
{
	is "$($torch --size "$1")" "$2" "a request of $1 bytes"
	is "$($torch --pad 32 --size "$1")" "${3:-$2}" "a padded request of $1 bytes"
}

# play WANTED NAME OPTIONS ROW...: bytes reserved and segments
play()
{
	want="reserved $1"
	name=$2
	options=$3
	shift 3
	printf '%s\n' "$@" >trace.csv
	# They are words.
	# shellcheck disable=SC2086
	is "$($torch $options trace.csv)" "$want" "$name"
}

# refuses NAME ROW...
refuses()
{
	name=$1
	shift
	printf '%s\n' "$@" >trace.csv
	$torch trace.csv >out 2>/dev/null
	is "$? $(cat out)" "1 " "$name"
}

K=1024
M=$((1024 * K))

size 1 "512 2097152 2096640"
size 480 "512 2097152 2096640"
size 481 "512 2097152 2096640" "1024 2097152 2096128"
size 512 "512 2097152 2096640" "1024 2097152 2096128"
size $((M - 32)) "1048576 2097152 1048576"
size $M "1048576 2097152 1048576" "1049088 20971520 19922432"
size $((2 * M)) "2097152 20971520 18874368" "2097664 20971520 18873856"
size $((10 * M)) "10485760 10485760 0" "10486272 12582912 2096640"
size $((20 * M)) "20971520 20971520 0" "20972032 23068672 2096640"
size $((40 * M)) "41943040 41943040 0" "41943552 44040192 2096640"
size $((1024 * M)) "1073741824 1073741824 0" "1073742336 1075838976 2096640"

is "$($torch --size $((21 * M)))" "23068672 23068672 0" \
	"a rest of 1 MiB stays with a large block"
is "$($torch --size $((21 * M - 512)))" "22019584 23068672 1049088" \
	"a rest of more is split off"
is "$($torch --expandable --size $((21 * M)))" "22020096 41943040 19922944" \
	"an expandable segment grows by 20 MiB, and any rest is split off"
is "$($torch --expandable --size 512)" "512 2097152 2096640" \
	"that of small blocks by 2 MiB"

set -- a,0,$((60 * M)),0 f,0,$((60 * M)),0 a,1,$((70 * M)),0
play "$((130 * M)) segments 2" "classic: 60 MiB freed do not serve 70" "" "$@"
play "$((80 * M)) segments 1" "expandable: they do, with a page more" --expandable "$@"

set -- a,0,$((20 * M)),0 a,1,$((20 * M)),0 a,2,$((20 * M)),0 \
	f,0,$((20 * M)),0 f,2,$((20 * M)),0 a,3,$((40 * M)),0
play "$((100 * M)) segments 4" "classic: segments are not joined" "" "$@"
play "$((80 * M)) segments 1" "expandable: the end of the segment grows" --expandable "$@"

set -- a,0,$((20 * M)),0 f,0,$((20 * M)),0 a,1,$((20 * M)),1
play "$((20 * M)) segments 1" "streams are one unless told" "" "$@"
play "$((40 * M)) segments 2" "else they do not share what is cached" --streams "$@"
play "$((40 * M)) segments 2" "nor a segment that grows" "--streams --expandable" "$@"

set -- a,0,$((12 * M)),0 a,1,$((30 * M)),0 a,2,$((14 * M)),0 f,0,$((12 * M)),0 \
	f,1,$((30 * M)),0 f,2,$((14 * M)),0 a,3,$((13 * M)),0 a,4,$((30 * M)),0
play "$((56 * M)) segments 3" "the smallest block that is large enough is taken" "" "$@"

set -- a,0,$((4 * M)),0 a,1,$((4 * M)),0 a,2,$((4 * M)),0 a,3,$((8 * M)),0 f,1,$((4 * M)),0 \
	f,0,$((4 * M)),0 f,2,$((4 * M)),0 a,4,$((12 * M)),0
play "$((20 * M)) segments 1" "neighbours in a segment are joined" "" "$@"

set -- a,0,1024,0 a,1,$M,0 a,2,$((M - 1024)),0 f,0,1024,0 a,3,512,0 a,4,512,0
play "$((2 * M)) segments 1" "small blocks are split to the last" "" "$@"

set -- a,0,$((12 * M)),0 a,1,$((18 * M)),0 f,0,$((12 * M)),0 a,2,$((8 * M)),0 a,3,$((12 * M)),0
play "$((60 * M)) segments 1" "the end of a segment that can grow is taken last" --expandable "$@"

set -- a,0,$((2 * M)),0
play "$((2 * 1024 * M)) segments 1" "sizes are scaled" "--scale 1024" "$@"

refuses "a block that is taken twice" a,0,512,0 a,0,512,0
refuses "a block that is not there" f,0,512,0
refuses "a request of nothing" a,0,0,0
refuses "a line that is none" a,0,512

# report OPTION...: of the files rows and raw
report()
{
	jq -n -R --rawfile rows rows --arg some "" --arg series 1.0 --arg kernel 1.0 \
		--arg devpool 0 --arg qemu 0 --arg command "make bench" \
		-f "$bench/report.jq" raw >"$1"
}

# judged NAME: limit and goal of the row of that name
judged()
{
	jq -r --arg name "$1" '.groups[].rows[] | select(.name == $name)
		| "\(if .limit then .limit.met else "-" end) \(if .goal then .goal.met else "-" end)"' json
}

cat >rows <<'END'
[A group | instructions]
What it is.
a.x	| one		|		| <= 2	| <= 1
> Nothing is less than this.
a.y	| another	| 2*a.x		| <= 1.5 | < 1.5
a.none	| not there	|		|	|
a.peer	| no peer	| a.other	| <= 1	|
?a.gone	| may be missing |		| = 1	|
+a.later | not there yet |		| <= 1	| <= 1
+a.now	| there by now	|		| <= 1	| <= 3
> Not shown, for it is met.
a.*	| the rest: *	|		| >= 4	| > 5
t.good	| timed		|		|	| >= 1.8
t.slow	| timed		|		|	| >= 1.8
t.few	| timed		|		| >= 1	| >= 1.8
t.void	| timed		|		|	| >= 1.8
END
cat >raw <<'END'
= accelerator some TCG
a.x 2
a.y 6
a.peer 1
a.now 2
a.5 5
unit.fionread 643.25
t.good 1.9 1.8 2.0 11 1.95
t.slow 1.7 1.6 1.8 11 1.95
t.few 1.9 1.8 2.0 10 1.95
t.void 1.9 1.8 2.0 11 1.89
END
report json
is "$(judged a.x)" "true false" "a limit that is met, a goal that is not"
is "$(judged a.y)" "true false" "a ratio is judged, not the figure"
is "$(judged a.none)" "false -" "what was not measured fails"
is "$(judged a.peer)" "false -" "so does what has nothing to be compared with"
is "$(judged a.gone)" "" "what may be missing does not"
is "$(judged a.later)" "- null" "what need not be there yet neither"
is "$(judged a.now)" "false true" "once it is there it is judged"
is "$(jq -c '[.groups[].rows[] | select(.answer) | .name]' json)" '["a.x"]' \
	"an answer stands beside a goal that is missed"
is "$(jq -r -L "$bench" -f "$bench/show.jq" json | tail -n 1)" \
	"3 limits kept, 3 missed; 2 goals met, 1 answered, 3 missed, 1 for later, 2 void" \
	"all that is summed up"
is "$(jq -r -L "$bench" -f "$bench/document.jq" json | sed -n '/^### Not there/,$p' | tail -n 1)" \
	"- A group: not there yet: goal <= 1" "and what is not there yet is named"
is "$(judged a.5)" "true false" "a star stands for the rest"
is "$(judged t.good)" "- true" "what was timed is judged"
is "$(judged t.slow)" "- false" "and missed"
is "$(judged t.few)" "null null" "too few pairs are void"
is "$(judged t.void)" "- null" "so is a control that fails"
is "$(jq -r '"\(.schema) \(.unit) \(.versions.accelerator)"' json)" "1 643.25 some TCG" \
	"the report says what it is"

sed -i -e 's/^a.x .*/a.x 3/' -e 's/^a.5 .*/a.5 5.04/' -e 's/^t.good .*/t.good 2.5 1.9 3 11 1.95/' \
	-e 's/^t.slow .*/t.slow 1.9 1.9 2 11 1.95/' -e 's/^t.void .*/t.void 9 9 9 11 1/' raw
report new
# compare A B: what make bench-compare says
compare()
{
	A=$1 B=$2 "$bench/compare.sh" 2>&1
}
compare json new >out
is "$(sed -n 's/^  \([a-z.]*\) .* \([-+][0-9.]* %\)$/\1 \2/p' out | tr '\n' ' ')" \
	"a.x +50 % t.slow +11.76 % " "what moved is said, most first, and nothing else"
is "$(grep ' was ' out)" "  A group: one: limit <= 2 was ok, is FAIL
  A group: another: goal < 1.5 was missed, is met
  A group: the rest: 5: goal > 5 was missed, is met
  A group: timed: goal >= 1.8 was missed, is met" "and which verdicts are others now"
is "$(tail -n 1 out)" "8 figures on both sides, 2 moved by more than 1 %; 2 void and left out" \
	"void figures are not compared"
is "$(compare new new | tail -n 1)" \
	"8 figures on both sides, 0 moved by more than 1 %; 2 void and left out" \
	"a report does not differ from itself"
sed 's/"series": "1.0"/"series": "2.0"/' json >other
is "$(compare other json | grep -c 'They are of two kernels')" 1 "two kernels are said to be two"
jq '.schema = 0' json >other
is "$(compare other json; echo $?)" "devpool: the reports mean different things (.schema): \
make the older one anew
1" "reports that mean different things are not compared"
is "$(compare none json; echo $?)" "devpool: none: no such report
1" "a report that is not there is named"
is "$(compare raw json; echo $?)" "devpool: raw: not a report of make bench
1" "so is a file that is none"
is "$(compare '' json; echo $?)" "devpool: which reports? make bench-compare A=old.json B=new.json; \
make bench leaves them in build/bench
1" "and one that was not given"

if [ $number -ne $planned ]; then
	echo "Bail out! $number of $planned tests were run"
	exit 1
fi
[ $failed -eq 0 ]
