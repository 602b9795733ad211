# SPDX-License-Identifier: GPL-2.0-only
#
# The report of one kernel as a section of Documentation/performance.md:
# jq -r -L FOLDER -f document.jq REPORT

include "words";

def cells: "| " + join(" | ") + " |";

# Only the columns that say something in this group.
def table:
	any(.[]; .than != null or .pairs) as $against
	| any(.[]; .ratio != null) as $ratio
	| any(.[]; .limit) as $limit
	| any(.[]; .goal or .void) as $goal
	| (if any(.[]; .pairs) then "quartiles" else "against" end) as $title
	| def columns($what; $figure; $against_; $ratio_; $limit_; $goal_):
		[$what, $figure, (if $against then $against_ else empty end),
			(if $ratio then $ratio_ else empty end),
			(if $limit then $limit_ else empty end),
			(if $goal then $goal_ else empty end)];
	(columns(""; "figure"; $title; "ratio"; "limit"; "goal") | cells),
	(columns("---"; "--:"; "--:"; "--:"; "---"; "---") | cells),
	(.[] | columns(.what; figure; against; .ratio | thousandths;
		"\(limit_bar) \(limit_met)"; "\(goal_bar) \(goal_met)")
		| map(sub("^ +"; "") | sub(" +$"; "")) | cells);

def goal: "- \(.title): \(.what): ";
def list: if . == [] then "None." else .[] end;

"## Linux \(.series)", "",
"\(header). Made by `\(.command)`: \(sums). U is \(.unit | number) instructions.", "",
(.groups[] | "### \(.title)", "",
	(if .text == "" then empty else .text, "" end),
	"Figures are \(.unit).", "", (.rows | table), ""),
"### Goals missed", "",
(rows("missed"; goal_met) | map("\(goal)\(.ratio // .value | thousandths), goal \(.goal.bar)") | list), "",
"### Goals answered", "",
(rows("answered"; goal_met)
	| map("\(goal)\(.ratio // .value | thousandths), goal \(.goal.bar). \(.answer)") | list), "",
"### Not there yet", "",
([.groups[] | .title as $title | .rows[] | select(.later) | .title = $title]
	| map(goal + (if .goal then "goal \(.goal.bar)" else "to compare" end)) | list)
