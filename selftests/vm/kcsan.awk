# SPDX-License-Identifier: GPL-2.0-only
#
# Passes a kernel's log on, but takes the headline out of KCSAN's reports of
# races between parts of the kernel itself: in strict mode it finds many. A
# report in which any frame is a module's stays.

function flush()
{
	if (report && (module || !whole))
		print headline
	report = 0
}

/BUG: KCSAN: / {
	flush()
	headline = $0
	report = 1
	module = whole = 0
	next
}

report && /\+0x[0-9a-f]+\/0x[0-9a-f]+ \[[A-Za-z0-9_]+\]\r?$/ {
	module = 1
}

report && /=================================/ {
	whole = 1
	flush()
}

{
	print
}

END {
	flush()
}
