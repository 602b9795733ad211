# SPDX-License-Identifier: GPL-2.0-only
#
# The report as a table for the terminal: jq -r -L FOLDER -f show.jq REPORT

include "words";

def spaces($n): if $n > 0 then " " * $n else "" end;
def left($n): . + spaces($n - length);
def right($n): spaces($n - length) + .;

def line($what; $figure; $against; $ratio; $limit; $ok; $goal; $met):
	"  " + ($what | left(58)) + ($figure | right(16)) + ($against | right(18)) +
	($ratio | right(11)) + "  " + ($limit | left(8)) + ($ok | left(6)) +
	($goal | left(9)) + $met | sub(" +$"; "");

header, "",
line(""; "figure"; "against"; "ratio"; "limit"; ""; "goal"; ""),
(.groups[] | "", "\(.title) [\(.unit)]",
	(.rows[] | line(.what; figure; against; .ratio | thousandths; limit_bar; limit_met;
		goal_bar; goal_met))),
"", sums
