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
	if .later then "not there yet"
	elif .value == null then "not measured"
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
def goal_met:
	if .void and (.goal | not) then "void"
	elif .later then if .goal then "later" else "" end
	elif .answer then "answered"
	else .goal | verdict("met"; "missed") end;

# Rows whose verdict on limit or goal is this word
def rows($verdict; is):
	[.groups[] | .title as $title | .rows[] | select(is == $verdict) | .title = $title];
def count($verdict; is): rows($verdict; is) | length;

def sums:
	"\(count("ok"; limit_met)) limits kept, \(count("FAIL"; limit_met)) missed; " +
	"\(count("met"; goal_met)) goals met, \(count("answered"; goal_met)) answered, " +
	"\(count("missed"; goal_met)) missed, \(count("later"; goal_met)) for later, " +
	"\([rows("void"; goal_met)[] | select(.goal)] | length) void";

def header:
	"Linux \(.kernel), devpool \(.devpool), QEMU \(.qemu)" +
	([.versions | to_entries[] | ", \(.key) \(.value)"] | join(""));
