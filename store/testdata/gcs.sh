#!/usr/bin/env bash
# Builds the server that TestReal... of store/gcs talks to, into bin/.servers, and
# prints its path. It is fsouza/fake-gcs-server, whose own tests run Google's
# clients against it. Without the network it does nothing but print, if it is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=v1.56.1
servers=$PWD/bin/.servers
server=$servers/fake-gcs-server-$version

if [ ! -x "$server" ]; then
	mkdir -p "$servers"
	made=$(mktemp -d "$servers/.XXXXXX")
	trap 'rm -rf "$made"' EXIT
	GOFLAGS='' GOBIN="$made" CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' "github.com/fsouza/fake-gcs-server@$version" >&2
	mv "$made/fake-gcs-server" "$server"
fi
printf '%s\n' "$server"
