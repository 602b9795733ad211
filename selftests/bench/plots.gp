# SPDX-License-Identifier: GPL-2.0-only
#
# gnuplot -e 'data = FILE; out = FOLDER' plots.gp: the plots of
# Documentation/performance.md, out of what plots.jq wrote.

set terminal svg size 760,420 font "sans-serif,13" background "white"
set style data linespoints
set key left top reverse Left samplen 2
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror out
stats data index "unit" using 2 nooutput name "LIMIT"

set output out . "/hit.svg"
set title "Memory that is there, taken and given back, by size"
set ylabel "instructions"
set logscale x 2
set logscale y 10
set xrange [256:536870912]
set yrange [1000:1000000000]
set xtics ("512 B" 512, "4 KiB" 4096, "64 KiB" 65536, "1 MiB" 1048576, "16 MiB" 16777216, "256 MiB" 268435456)
set format y "10^{%L}"
plot data index "udmabuf" title "udmabuf" lc rgb "#999999" pt 4, \
	data index "dma-heap" title "dma-heap" lc rgb "#d95f02" pt 6, \
	data index "devpool" title "devpool, ALLOC + FREE" lc rgb "#1b6ca8" pt 7, \
	LIMIT_max title "two calls that do next to nothing (2 U)" with lines dt 2 lc rgb "#333333"

set output out . "/live.svg"
set title "ALLOC + FREE beside live blocks of the same pool"
unset logscale y
set logscale x 10
set xrange [700:1400000]
set yrange [0:7000]
set xtics ("1,000" 1000, "10,000" 10000, "100,000" 100000, "1,000,000" 1000000)
set format y "%.0f"
plot data index "places" title "with holes, FREE here or there and ALLOC" lc rgb "#7570b3" pt 4, \
	data index "larger" title "with holes, none of which fits" lc rgb "#d95f02" pt 6, \
	data index "holes" title "with holes" lc rgb "#1b9e77" pt 5, \
	data index "full" title "without holes" lc rgb "#1b6ca8" pt 7, \
	LIMIT_max title "2 U" with lines dt 2 lc rgb "#333333"

set style data histograms
set style histogram clustered gap 1
set style fill solid
set boxwidth 0.9
unset logscale x
set xrange [*:*]
set xtics auto rotate by -35
set rmargin 12

set output out . "/whole.svg"
set title "64 MiB taken, mapped, touched, unmapped and given back"
set ylabel "million instructions"
set logscale y 10
set yrange [0.1:1000]
set format y "%g"
plot data index "whole" using 2:xtic(1) title "after a rest" lc rgb "#9ecae1", \
	"" index "whole" using 3 title "one after the other" lc rgb "#1b6ca8"

# In percent, as most of it is little; what is exact has no logarithm.
percent(x) = 100 * (x - 1) < 0.01 ? 0.01 : 100 * (x - 1)
set output out . "/fragmentation.svg"
set title "Resident beyond what is live, at most, in percent of it"
set ylabel "percent"
set yrange [0.01:1000000]
plot data index "traces" using (percent($2)):xtic(1) title "devpool" lc rgb "#1b6ca8", \
	"" index "traces" using (percent($3)) title "PyTorch, expandable segments (model)" lc rgb "#fdae6b", \
	"" index "traces" using (percent($4)) title "PyTorch, classic segments (model)" lc rgb "#d95f02"
