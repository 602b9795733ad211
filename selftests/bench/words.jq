# SPDX-License-Identifier: GPL-2.0-only
#
# What the table for the terminal and that of the documentation say alike.

# 1234567.8 as 1,234,568; small ones with what is behind the point
def number:
	def commas: if length > 3 then (.[:-3] | commas) + "," + .[-3:] else . end;
	def hundredths: (. * 100 | round) as $n
		| "\($n / 100 | floor).\($n % 100 + 100 | tostring | .[1:])";
	if . == null then ""
	elif . < 100 and . != floor then hundredths
	else round | tostring | commas end;

def thousandths:
	if . == null then ""
	else (. * 1000 | round) as $n
		| "\($n / 1000 | floor | tostring).\($n % 1000 + 1000 | tostring | .[1:])" end;

def figure:
	if .value == null then "not measured"
	elif .pairs then .value | thousandths
	else .value | number end;

def against:
	if .pairs then "\(.low | thousandths) to \(.high | thousandths)"
	else .than | number end;

def verdict($yes; $no):
	if . == null then "" elif .met == null then "void"
	elif .met then $yes else $no end;

def limit_bar: if .limit then .limit.bar else "" end;
def limit_met: .limit | verdict("ok"; "FAIL");
def goal_bar: if .goal then .goal.bar else "" end;
def goal_met: if .void and (.goal | not) then "void" else .goal | verdict("met"; "missed") end;

def count($what; $met):
	[.groups[].rows[][$what] | select(. != null) | .met | select(. == $met)] | length;

def sums:
	"\(count("limit"; true)) limits kept, \(count("limit"; false)) missed; " +
	"\(count("goal"; true)) goals met, \(count("goal"; false)) missed, \(count("goal"; null)) void";

def header:
	"Linux \(.kernel), devpool \(.devpool), QEMU \(.qemu)" +
	([.versions | to_entries[] | ", \(.key) \(.value)"] | join(""));
