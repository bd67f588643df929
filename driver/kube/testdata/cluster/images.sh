#!/bin/sh
# images.sh pause|busybox OUT.tar: an image for the cluster, without Docker and without a registry.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
case $1 in
pause)
	(cd "$here/../pause" && CGO_ENABLED=0 go build -ldflags '-s -w' -o "$root/pause" main.go)
	python3 "$here/image.py" "$2" drover.test/pause:1 "$root" /pause
	;;
busybox)
	mkdir -p "$root/bin" "$root/tmp"
	cp /bin/busybox "$root/bin/"
	chmod 1777 "$root/tmp"
	for name in $(/bin/busybox --list); do
		[ "$name" = busybox ] || ln -s busybox "$root/bin/$name"
	done
	python3 "$here/image.py" "$2" drover.test/busybox:1 "$root" PATH=/bin
	;;
esac
