#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Record ffmpeg-transcode.csv: ffmpeg turns a broadcast into two streams for the web.
#
#   ffmpeg-transcode.recipe.sh DEVPOOL-RECORD OUT.csv
#
# Needs Debian 12's ffmpeg. The source is made of its own test pictures and tones:
# MPEG-4 video and MP2 sound in a transport stream whose picture changes its
# size twice, as one does when the programme changes. The recorded command decodes
# it, scales each picture to two sizes, and encodes one as H.264 with AAC, the
# other as VP9 with Opus, with two threads for each codec. A new picture size makes
# decoder and scalers give back their frames and take others; the encoders' stay.
set -eu

[ $# -eq 2 ] || { sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
recorder=$(realpath "$1")
out=$(realpath "$2")
min=4096

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for part in 1:1280x720 2:720x576 3:1920x1080; do
	ffmpeg -nostdin -v error \
		-f lavfi -i "testsrc2=size=${part#*:}:rate=25:duration=8" \
		-f lavfi -i "sine=frequency=440:beep_factor=4:duration=8" \
		-c:v mpeg4 -q:v 5 -g 25 -bf 2 -threads 1 -c:a mp2 -f mpegts "${part%:*}.ts"
done
cat 1.ts 2.ts 3.ts >source.ts

"$recorder" -o trace.csv --min $min -- \
	ffmpeg -nostdin -v error -threads 2 -i source.ts -filter_threads 1 \
	-s 854x480 -c:v libx264 -preset veryfast -threads:v 2 -c:a aac web.mkv \
	-s 426x240 -c:v libvpx-vp9 -deadline good -cpu-used 5 -b:v 500k -threads:v 2 \
	-c:a libopus -b:a 64k web.webm

{
	cat <<-EOT
	# SPDX-License-Identifier: GPL-2.0-only
	# what: ffmpeg transcodes 24 s of test pictures and tones whose size changes twice into H.264
	#   with AAC and VP9 with Opus, two threads per codec; recorded by ffmpeg-transcode.recipe.sh
	# packages: $(dpkg-query -W -f='${Package} ${Version}, ' ffmpeg libavcodec59 libvpx7)$(
		dpkg-query -W -f='${Package} ${Version}' libx264-164)
	EOT
	cat trace.csv
} >"$out"
