# SPDX-License-Identifier: GPL-2.0-only
#
# Data of the plots, as gnuplot reads it: jq -r -f plots.jq REPORT. Blocks of
# lines with two empty ones between them, each below its name.

def block($name; lines): "# \($name)", lines, "", "";

.measured as $m
| def size($prefix; $suffix):
	$m | to_entries
	| map(select(.key | startswith($prefix) and endswith($suffix))
		| {x: (.key | ltrimstr($prefix) | rtrimstr($suffix) | tonumber), y: .value.value})
	| sort_by(.x)[] | "\(.x) \(.y)";
def whole($kind):
	[$m["whole.burst.67108864." + $kind], $m["whole.sustained.67108864." + $kind]]
	| select(.[0]) | map(.value / 1e6 | tostring) | join(" ");
def peers:
	{devpool: "devpool, cold", devpool_warm: "devpool, warm", hugetlb: "hugetlb memfd",
	 anonymous: "anonymous, huge pages", memfd_huge: "memfd, huge pages", heap: "dma-heap",
	 udmabuf_hugetlb: "udmabuf of hugetlb", memfd: "memfd", udmabuf: "udmabuf of memfd",
	 vgem: "vgem"};
block("unit"; "1 \(2 * .unit)"),
block("devpool"; size("hit.private."; ".pair")),
block("dma-heap"; size("pair.heap."; "")),
block("udmabuf"; size("pair.udmabuf."; "")),
block("full"; size("live.full."; ".pair")),
block("holes"; size("live.holes."; ".pair")),
block("larger"; size("live.holes."; ".larger")),
block("places"; size("live.holes."; ".places")),
block("whole"; peers | to_entries[] | .key as $k | "\"\(.value)\" \(whole($k))"),
block("traces"; [$m | keys[] | select(startswith("frag.") and endswith(".live"))
	| ltrimstr("frag.") | rtrimstr(".live")][] | . as $t
	| [$m["frag.\($t).peak"], $m["frag.\($t).expandable"], $m["frag.\($t).classic"]]
	| map(.value / $m["frag.\($t).live"].value | tostring) | "\"\($t)\" " + join(" "))
