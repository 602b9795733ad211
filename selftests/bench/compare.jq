# SPDX-License-Identifier: GPL-2.0-only
#
# What moved between two reports, most first:
#
#	jq -n -r -L FOLDER --slurpfile a OLD --slurpfile b NEW --arg threshold 1
#		-f compare.jq
#
# The threshold is in percent. A figure that was timed has moved if its quartiles
# lie apart as well; one that is void on either side says nothing.

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

$a[0] as $old | $b[0] as $new
| if $old.schema != $new.schema then error("the reports are of two schemas") else . end
| ($threshold | tonumber) as $threshold
| [$old.measured | keys[] | select($new.measured[.])
	| {name: ., old: $old.measured[.], new: $new.measured[.]}
	| select(.old.void or .new.void | not)
	| .change = (if .old.value == .new.value then 0
		elif .old.value == 0 then infinite
		else (.new.value / .old.value - 1) * 100 end)] as $both
| [$both[] | select((.change | abs) > $threshold and apart(.old; .new))]
| sort_by(.change | -abs)
| "old: \($old | header)", "new: \($new | header)", "",
	(.[] | "  " + (.name | left(44)) + (.old | figure | right(16)) + (.new | figure | right(16)) +
		(if .change | isinfinite then "from 0" else .change | signed end | right(14))),
	(if length > 0 then "" else empty end),
	only("old"; $old; $new), only("new"; $new; $old),
	"\($both | length) figures on both sides, \(length) moved by more than \($threshold) %"
