#!/bin/sh
# Renders 24 frames with POV-Ray, in a store of its own, which is gone afterwards;
# the frames are in out/. Where POV-Ray is missing it says so, and fails.
set -eu
cd "$(dirname "$0")"
drover=${DROVER:-$(cd ../.. && pwd)/bin/drover}
if [ ! -x "$drover" ]; then
	echo "find $drover: it is not built: run make build, or say DROVER=..." >&2
	exit 125
fi
if ! command -v povray >/dev/null; then
	echo "find povray: PATH: it is not there: apt-get install povray" >&2
	exit 125
fi
DROVER_STORE=$(mktemp -d)
export DROVER_STORE
trap 'rm -rf "$DROVER_STORE"' EXIT
rm -rf out

"$drover" map --from 1-24 --out 'frame{n}.png' -o out -- \
	povray +Iscene.pov '+O{out}' '+K{}' +FN +W320 +H240 +A +WT1 -D

# Every frame is a PNG, and no two are alike: the clock has reached each.
for n in $(seq 24); do
	if [ "$(head -c 4 "out/frame$n.png" | tail -c 3)" != PNG ]; then
		echo "out/frame$n.png is not a PNG" >&2
		exit 1
	fi
done
different=$(cksum out/frame*.png | cut -d ' ' -f 1 | sort -u | wc -l)
if [ "$different" -ne 24 ]; then
	echo "there are $different different frames, and not 24" >&2
	exit 1
fi
echo "24 frames in out"
