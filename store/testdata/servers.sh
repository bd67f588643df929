#!/bin/sh
# Installs a real server for the tests of the stores, once, and prints its path:
#
#   store/testdata/servers.sh versitygw          S3
#   store/testdata/servers.sh fake-gcs-server    Google Cloud Storage; its own tests run Google's clients against it
#
# It is built from the module proxy into bin/.servers of this repository, where
# git does not look and `make clean` takes it away. One build at a time.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
to=$here/bin/.servers

case ${1-} in
versitygw) package=github.com/versity/versitygw/cmd/versitygw version=v1.8.0 ;;
fake-gcs-server) package=github.com/fsouza/fake-gcs-server version=v1.56.1 ;;
*)
	echo "usage: servers.sh versitygw|fake-gcs-server" >&2
	exit 2
	;;
esac

if [ ! -x "$to/$1-$version" ]; then
	mkdir -p "$to"
	exec 9>"$to/.lock"
	if command -v flock >/dev/null; then flock 9; fi
	if [ ! -x "$to/$1-$version" ]; then
		made=$(mktemp -d "$to/.new-XXXXXX")
		trap 'rm -rf "$made"' EXIT
		(cd / && CGO_ENABLED=0 GOBIN=$made GOFLAGS= go install -trimpath -ldflags='-s -w' "$package@$version" >&2)
		mv "$made/$1" "$to/$1-$version"
	fi
fi
echo "$to/$1-$version"
