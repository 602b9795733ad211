# SPDX-License-Identifier: GPL-2.0-only
#
# What moved between two reports, most first:
#
#	jq -n -r -L FOLDER --slurpfile a OLD --slurpfile b NEW --arg threshold 1
#		-f compare.jq
#
# The threshold is in percent. A figure that was timed has moved if its quartiles
# lie apart as well; one that is void on either side says nothing. Then limits and
# goals whose verdict is another now.

include "words";

def abs: if . < 0 then -. else . end;
def spaces($n): if $n > 0 then " " * $n else "" end;
def left($n): . + spaces($n - length);
def right($n): spaces($n - length) + .;
def signed: (if . < 0 then "-" else "+" end) + (abs | number) + " %";

def apart($x; $y):
	$x.pairs == null or $x.high < $y.low or $y.high < $x.low;

# Names that only the one has, not too many of them
def only($which; $one; $other):
	[$one.measured | keys[] | select($other.measured[.] | not)]
	| if length == 0 then empty
	else "only in the \($which) one: \(.[:12] | join(" "))" +
		(if length > 12 then " and \(length - 12) more" else "" end) end;

# The rows of a report, each by its figure and what that is compared with
def verdicts:
	reduce (.groups[] | .title as $title | .rows[] | .title = $title) as $row ({};
		.["\($row.name) \($row.peer // "")"] = $row);
def turned($what; bar; met; $old; $new):
	($old | met) as $was | ($new | met) as $is
	| select($was != $is and $was != "" and $is != "")
	| "  \($new.title): \($new.what): \($what) \($new | bar) was \($was), is \($is)";

$a[0] as $old | $b[0] as $new
| ($threshold | tonumber) as $threshold
| [$old.measured | keys[] | select($new.measured[.])
	| {name: ., old: $old.measured[.], new: $new.measured[.]}
	| select(.old.void or .new.void | not)
	| .change = (if .old.value == .new.value then 0
		elif .old.value == 0 then infinite
		else (.new.value / .old.value - 1) * 100 end)] as $both
| [$both[] | select((.change | abs) > $threshold and apart(.old; .new))]
| sort_by(.change | -abs)
| ([$old.measured | to_entries[] | select(.value.void or ($new.measured[.key] // {}).void)]
	| length) as $void
| ($old | verdicts) as $was | ($new | verdicts) as $is
| [$is | keys_unsorted[] | select($was[.])
	| turned("limit"; limit_bar; limit_met; $was[.]; $is[.]),
	  turned("goal"; goal_bar; goal_met; $was[.]; $is[.])] as $turned
| "old: \($old | header)", "new: \($new | header)",
	(if $old.series != $new.series then
		"They are of two kernels: what moved need not be devpool." else empty end), "",
	(.[] | "  " + (.name | left(44)) + (.old | figure | right(16)) + (.new | figure | right(16)) +
		(if .change | isinfinite then "from 0" else .change | signed end | right(14))),
	(if length > 0 then "" else empty end),
	$turned[], (if $turned != [] then "" else empty end),
	only("old"; $old; $new), only("new"; $new; $old),
	"\($both | length) figures on both sides, \(length) moved by more than \($threshold) %" +
		(if $void > 0 then "; \($void) void and left out" else "" end)
