# SPDX-License-Identifier: GPL-2.0-only
#
# The table of make bench, out of the file rows and of what was measured:
#
#	awk -v json=FILE [-v some=1] -v kernel=... -f report.awk rows MEASURED
#
# and the same as JSON into FILE. With some, what was not measured is left out;
# else it is a failure. Exit status: 1 if a limit is missed.

BEGIN {
	FS = "|"
}

function trim(s)
{
	gsub(/^[ \t]+|[ \t]+$/, "", s)
	return s
}

FNR == NR {
	if (/^#/)
		next
	gsub(/\t+/, " ")
	if ($0 != "") {
		line[++lines] = $0
	}
	next
}

/^[a-z][A-Za-z0-9_.-]* -?[0-9.]+$/ {
	split($0, word, " ")
	if (!(word[1] in value))
		name[++names] = word[1]
	value[word[1]] = word[2] + 0
}

# 1234567.8 as 1,234,568; small ones with what is behind the point
function number(x,		s, out)
{
	if (x != int(x) && x < 100 && x > -100)
		return sprintf("%.2f", x)
	s = sprintf("%.0f", x)
	while (length(s) > 3) {
		out = "," substr(s, length(s) - 2) out
		s = substr(s, 1, length(s) - 3)
	}
	return s out
}

# What stands for the star in the pattern, or "" if the name is another.
function star(pattern, name,		at, head, tail, mid)
{
	at = index(pattern, "*")
	head = substr(pattern, 1, at - 1)
	tail = substr(pattern, at + 1)
	mid = substr(name, at, length(name) - length(head) - length(tail))
	if (head mid tail != name || mid ~ /\./)
		return ""
	return mid
}

function put(s, mid)
{
	if (mid ~ /^[0-9]+$/ && s !~ /\./)
		mid = number(mid)
	gsub(/\*/, mid, s)
	return s
}

function heading(text)
{
	if (title == "")
		return
	printf "%s%s\n", shown++ ? "\n" : "", title
	title = ""
}

function limit(bar, x,		part)
{
	split(bar, part, " ")
	if (part[1] == "<=")
		return x <= part[2] + 0
	if (part[1] == ">=")
		return x >= part[2] + 0
	return x == part[2] + 0
}

function row(key, what, peer, bar,		times, than, ratio, verdict, x, text)
{
	said[key] = 1
	heading()
	x = value[key]
	verdict = ""
	than = ""
	ratio = ""
	if (peer != "") {
		times = 1
		if (peer ~ /^[0-9]+\*/) {
			times = peer + 0
			sub(/^[0-9]+\*/, "", peer)
		}
		if (peer in value) {
			than = times * value[peer]
			ratio = than ? x / than : 0
		}
	}
	if (bar != "info") {
		if (peer != "" && ratio == "")
			verdict = "FAIL: no " peer
		else
			verdict = limit(bar, peer == "" ? x : ratio) ? "ok" : "FAIL"
		if (verdict != "ok")
			failed++
		else
			passed++
	}
	text = sprintf("  %-50s %17s %17s %9s  %-8s %s", what, number(x),
		than == "" ? "" : number(than), ratio == "" ? "" : sprintf("%.3f", ratio),
		bar == "info" ? "" : bar, verdict)
	sub(/ +$/, "", text)
	print text
	rows = rows sprintf("%s\n    {\"group\": \"%s\", \"what\": \"%s\", \"name\": \"%s\", \"value\": %.2f",
		rows == "" ? "" : ",", group, what, key, x)
	if (ratio != "")
		rows = rows sprintf(", \"peer\": \"%s\", \"times\": %d, \"ratio\": %.6f", peer, times, ratio)
	if (bar != "info")
		rows = rows sprintf(", \"limit\": \"%s\", \"met\": %s", bar, verdict == "ok" ? "true" : "false")
	rows = rows "}"
}

function missing(key, what)
{
	heading()
	printf "  %-50s %17s %46s\n", what, "not measured", "FAIL"
	failed++
}

function judge(		i, k, n, field, key, optional, mid, found)
{
	for (i = 1; i <= lines; i++) {
		n = split(line[i], field, "|")
		if (n == 1) {
			group = title = trim(line[i])
			gsub(/[\\"]/, "\\\\&", group)
			continue
		}
		for (k = 1; k <= 4; k++)
			field[k] = trim(field[k])
		key = field[1]
		optional = some || sub(/^\?/, "", key)
		sub(/^\?/, "", key)
		found = 0
		if (key !~ /\*/ && key in value) {
			row(key, field[2], field[3], field[4])
			found = 1
		}
		for (k = 1; k <= names && key ~ /\*/; k++) {
			mid = star(key, name[k])
			if (mid == "" || name[k] in said)
				continue
			row(name[k], put(field[2], mid), put(field[3], mid), field[4])
			found = 1
		}
		if (!found && !optional)
			missing(key, field[2])
	}
}

END {
	printf "Linux %s, devpool %s, QEMU %s, counted: figures are instructions\n\n", kernel, module, qemu
	printf "  %-50s %17s %17s %9s  %s\n", "", "figure", "against", "ratio", "limit"
	judge()
	printf "\n%d limits met, %d missed\n", passed, failed

	printf "{\n  \"kernel\": \"%s\",\n  \"module\": \"%s\",\n  \"qemu\": \"%s\",\n", kernel, module, qemu >json
	printf "  \"mode\": \"counted\",\n  \"measured\": {" >json
	for (k = 1; k <= names; k++)
		printf("%s\n    \"%s\": %.2f", (k > 1) ? "," : "", name[k], value[name[k]]) >json
	printf "\n  },\n  \"rows\": [%s\n  ]\n}\n", rows >json
	close(json)
	exit failed != 0
}
