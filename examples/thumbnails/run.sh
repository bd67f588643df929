#!/bin/sh
# Twelve pictures, their thumbnails, and then one picture more. In a store of its
# own, which is gone afterwards; what it makes is in pictures/ and out/.
set -eu
cd "$(dirname "$0")"
drover=${DROVER:-$(cd ../.. && pwd)/bin/drover}
python=${PYTHON:-python3}
if [ ! -x "$drover" ]; then
	echo "find $drover: it is not built: run make build, or say DROVER=..." >&2
	exit 125
fi
DROVER_STORE=$(mktemp -d)
export DROVER_STORE
trap 'rm -rf "$DROVER_STORE"' EXIT
rm -rf pictures out

thumbnails() {
	"$drover" map --from 'pictures/*.png' --out 'thumbs/{.stem}.png' -o out -- "$python" thumb.py {} '{out}'
}

# check N: there are N thumbnails, and each is a PNG of 120 x 90.
check() {
	"$python" -B -c '
import glob, png, sys
found = [png.read(path) for path in sorted(glob.glob("out/thumbs/picture ??.png"))]
sizes = {(width, len(rows)) for width, rows in found}
if len(found) != int(sys.argv[1]) or sizes != {(120, 90)}:
    sys.exit(f"{len(found)} thumbnails of {sizes}, and not {sys.argv[1]} of 120 x 90")
' "$1"
	echo "$1 thumbnails of 120 x 90 in out/thumbs"
}

"$python" -B pictures.py pictures 12
thumbnails
check 12

"$python" -B pictures.py pictures 13 # the first twelve are as they were
thumbnails
check 13
