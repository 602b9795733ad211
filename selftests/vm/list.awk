# SPDX-License-Identifier: GPL-2.0-only
#
# Reads tests.list: a line "NAME SECONDS" for each test that runs on a kernel.
# With check=1 instead a line for each that is not as it ought to be.
#
#	awk -v kernel=KERNEL -v usual=SECONDS -f list.awk tests.list
#	awk -v check=1 -f list.awk tests.list

function bad(why)
{
	if (check)
		print "tests.list: " $1 ": " why
}

/^#/ || /^[ \t]*$/ {
	next
}

{
	reason = $0
	if (!sub(/^[^#]*# */, "", reason))
		reason = ""
	line = $0
	sub(/[ \t]*#.*/, "", line)
	$0 = line
	if (NF > 3)
		bad("more than three columns")
	no = 0
	for (i = 2; i <= NF; i++) {
		if ($i == "no")
			no++
		else if ($i !~ /^[0-9]+$/)
			bad($i " is no number of seconds")
	}
	if (no && reason == "")
		bad("no reason is given")
	if (!no && reason != "")
		bad("a reason for nothing")
	if (no > 1)
		bad("runs nowhere")
	if (check)
		next
	stock = NF > 1 ? $2 : usual
	debug = NF > 2 ? $3 : (stock == "no" ? 10 * usual : 10 * stock)
	seconds = kernel ~ /-/ ? debug : stock
	if (seconds != "no")
		print $1, seconds
}
