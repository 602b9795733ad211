# SPDX-License-Identifier: GPL-2.0-only
#
# Judges one program's TAP: prints a line "pass NAME", "fail NAME: WHY" or
# "skip NAME: WHY" for each result, and a "fail" for whatever is not as it
# ought to be: no plan, a plan that is not fulfilled, a status that does not
# match.
#
#	awk -v status=STATUS -f tap.awk FILE
#
# STATUS is the program's exit status, or "timeout", or "missing".

function result(kind, name)
{
	print kind " " name
	if (kind == "fail")
		failed++
}

BEGIN {
	plan = -1
}

{
	sub(/\r$/, "")
}

/^1\.\.[0-9]+/ {
	if (plan >= 0)
		twice = 1
	n = $1
	sub(/^1\.\./, "", n)
	plan = n + 0
	if (plan == 0 && toupper($0) ~ /# *SKIP/) {
		why = $0
		sub(/^[^#]*# *[A-Za-z]+ */, "", why)
		result("skip", "all: " why)
		skipped = 1
	}
	next
}

/^Bail out!/ {
	result("fail", "all: " $0)
	bailed = 1
	next
}

/^(not )?ok( |$)/ {
	good = ($1 == "ok")
	line = $0
	sub(/^(not )?ok */, "", line)
	number = line
	sub(/[^0-9].*/, "", number)
	if (number != "") {
		sub(/^[0-9]+ */, "", line)
		if (number in seen)
			result("fail", line ": number " number " a second time")
		seen[number] = 1
	}
	sub(/^- */, "", line)
	results++
	why = ""
	directive = ""
	if (match(line, /# *(SKIP|skip|Skip|XFAIL|TODO)/)) {
		why = substr(line, RSTART)
		line = substr(line, 1, RSTART - 1)
		sub(/ *$/, "", line)
		directive = toupper(why)
		sub(/^# */, "", directive)
		sub(/[^A-Z].*/, "", directive)
		sub(/^# *[A-Za-z]+:? */, "", why)
	}
	if (directive == "SKIP") {
		result("skip", line ": " why)
		skipped = 1
	} else if (good || directive == "XFAIL") {
		result("pass", line)
	} else {
		result("fail", line)
		notok = 1
	}
}

END {
	if (status == "missing")
		result("fail", "all: there is no such program")
	else if (status == "timeout")
		result("fail", "all: killed at its timeout")
	else if (plan < 0 && !bailed)
		result("fail", "all: no plan")
	if (twice)
		result("fail", "all: more than one plan")
	if (plan >= 0 && results != plan)
		result("fail", "all: a plan of " plan ", but " results + 0 " results")
	if (plan == 0 && !skipped)
		result("fail", "all: an empty plan")
	if (status !~ /^[0-9]+$/)
		exit
	# 4 is kselftest's "skipped".
	if (status > 128)
		result("fail", "all: killed by signal " (status - 128))
	else if (status != 0 && !failed && !(status == 4 && skipped))
		result("fail", "all: exit status " status)
	else if (status == 0 && notok)
		result("fail", "all: exit status 0 in spite of that")
}
