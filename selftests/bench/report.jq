# SPDX-License-Identifier: GPL-2.0-only
#
# Makes the report out of the file rows and of what was measured:
#
#	jq -n -R --rawfile rows rows [--arg some 1] --arg kernel ... \
#		-f report.jq MEASURED
#
# With some, rows that were not measured are left out; else they are failures.
#
# Schema: .schema is raised when what a field means changes.
#
#	.kernel .series .devpool .qemu .command	what was run
#	.versions	of the rest
#	.unit		U, in instructions
#	.measured	NAME: {value}, all of them; of what was timed also the
#			quartiles low and high, the number of pairs that count,
#			the control, and whether it is void
#	.groups[]	title, unit, text, rows[]
#	.rows[]		name, what, and what .measured has; value is null if it
#			was not measured, and later true if it need not be yet;
#			peer, times, than, ratio if compared; limit and goal:
#			{bar, met}; met is null where it is void or for later;
#			answer: what stands for a goal that is missed

def trim: gsub("^[ \t]+|[ \t]+$"; "");

# The lines of rows as groups, each with its patterns.
def groups:
	[$rows | split("\n")[] | trim | select(. != "" and (startswith("#") | not))]
	| reduce .[] as $line ([];
		if $line[:1] == "[" then
			($line[1:-1] | split("|") | map(trim)) as $f
			| . + [{title: $f[0], unit: $f[1], text: "", rows: []}]
		elif $line[:1] == ">" then
			.[-1].rows[-1].answer = ($line[1:] | trim)
		elif $line | contains("|") then
			($line | split("|") | map(trim)) as $f
			| .[-1].rows += [{
				pattern: ($f[0] | ltrimstr("?") | ltrimstr("+")),
				optional: ($f[0] | startswith("?")),
				later: ($f[0] | startswith("+")),
				what: $f[1], against: $f[2], limit: $f[3], goal: $f[4]}]
		else
			.[-1].text += (if .[-1].text == "" then "" else " " end) + $line
		end);

# What was measured: {name: {value, ...}}, and the versions.
def figures:
	reduce inputs as $line ({figures: {}, versions: {}};
		($line | split(" ")) as $w
		| if $w[0] == "=" then
			.versions[$w[1]] = ($w[2:] | join(" "))
		elif $line | test("^[a-z][A-Za-z0-9_.-]* -?[0-9.]+$") then
			.figures[$w[0]] = {value: ($w[1] | tonumber)}
		elif $line | test("^[a-z][A-Za-z0-9_.-]*( [0-9.]+){5}$") then
			($w[1:] | map(tonumber)) as $n
			| .figures[$w[0]] = {value: $n[0], low: $n[1], high: $n[2], pairs: $n[3],
				control: $n[4], void: ($n[3] < 11 or $n[4] < 1.9)}
		else . end);

# What stands for the star, of those names that fit the pattern.
def stars($names):
	("^" + (gsub("\\."; "\\.") | gsub("\\*"; "(?<star>[^.]+)")) + "$") as $regex
	| $names[] | select(test($regex)) | {name: ., star: (capture($regex).star // "")};

# 1234567 as 1,234,567
def commas:
	if test("^[0-9]{4,}$") then (.[:-3] | commas) + "," + .[-3:] else . end;

def keeps($bar):
	($bar | split(" ")) as $b
	| ($b[1] | tonumber) as $n
	| if $b[0] == "<=" then . <= $n
	elif $b[0] == ">=" then . >= $n
	elif $b[0] == "<" then . < $n
	elif $b[0] == ">" then . > $n
	elif $b[0] == "=" then . == $n
	else error("no such bar: " + $bar) end;

# null where there is nothing to judge
def judge($bar; $x; $void):
	if $bar == "" then null
	else {bar: $bar, met: (if $void then null elif $x == null then false
		else ($x | keeps($bar)) end)} end;

def row($figures; $pattern; $name; $star):
	$figures[$name] as $figure
	| ($pattern.against | capture("^((?<times>[0-9]+)\\*)?(?<peer>.*)$")
		| .times //= "1" | .peer = (.peer // "" | gsub("\\*"; $star))) as $peer
	| ($peer.times | tonumber) as $times
	| (if $peer.peer == "" or $figures[$peer.peer] == null then null
		else $times * $figures[$peer.peer].value end) as $than
	| (if $than == null or $than == 0 then null else $figure.value / $than end) as $ratio
	| (if $peer.peer == "" then $figure.value else $ratio end) as $x
	| {name: $name, what: ($pattern.what | gsub("\\*"; $star | commas))}
		+ $figure
		+ (if $peer.peer == "" then {} else
			{peer: $peer.peer, times: $times, than: $than, ratio: $ratio} end)
		+ {limit: judge($pattern.limit; $x; $figure.void),
		   goal: judge($pattern.goal; $x; $figure.void)}
		| if $pattern.answer and .goal.met == false then .answer = $pattern.answer
		else . end;

# What was not measured: a failure, unless the module does not have it yet
def missing($pattern):
	{name: $pattern.pattern, what: $pattern.what, value: null}
	+ if $pattern.later then
		{later: true, limit: null, goal: judge($pattern.goal; null; true)}
	else {limit: {bar: "", met: false}, goal: null} end;

(figures) as {figures: $figures, versions: $versions}
| ($figures | keys_unsorted) as $names
| reduce groups[] as $group ({said: {}, groups: []};
	reduce $group.rows[] as $pattern (. + {rows: []};
		.said as $said
		| [$pattern.pattern | stars($names)
			| select(($pattern.pattern | contains("*") | not) or ($said[.name] | not))] as $found
		| .rows += [$found[] | row($figures; $pattern; .name; .star)]
		| reduce $found[] as $f (.; .said[$f.name] = true)
		| if $found == [] and ($pattern.optional or $some == "1" | not) then
			.rows += [missing($pattern)]
		else . end)
	| .groups += [$group + {rows: .rows} | select(.rows != [])])
| {
	schema: 1, series: $series, kernel: $kernel, devpool: $devpool, qemu: $qemu,
	command: $command, versions: $versions,
	unit: $figures["unit.fionread"].value,
	measured: $figures,
	groups: .groups
}
