#!/usr/bin/env bash
# dockerd.sh DIR PID: a private dockerd for tests, for as long as process PID lives.
#
# All that call it with one DIR share one daemon: the first starts it, and it ends
# when the last of their processes has. It prints the DOCKER_HOST. Images that the
# tests want are made here, from Debian's packages and our own program; nothing is
# asked of a registry of images. CACHE, a folder, keeps Debian's root from one run to the next.
#
# It needs root, dockerd, docker, iptables, ip, debootstrap, and Go for the static image.
set -euo pipefail

BRIDGE=drover-test0
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# began is when a process began, so that its number is not taken for another's.
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | grep -v '^Z' | cut -d' ' -f20; } # nothing of one that only waits to be reaped

# alive forgets the users that have gone and says whether one is left.
alive() {
	local f left=1
	for f in "$DIR"/users/*; do
		[ -e "$f" ] || continue
		if [ "$(began "${f##*/}")" = "$(cat "$f")" ]; then left=0; else rm -f "$f"; fi
	done
	return $left
}

# empty removes DIR with what is mounted in it. A dockerd that was killed leaves its mounts, and
# a folder with a mount in it cannot be removed.
empty() {
	local m
	{ grep -o " $DIR/[^ ]*" /proc/mounts || true; } | sort -r | while read -r m; do umount -l "$(printf '%b' "${m//\\/\\0}")" 2>/dev/null || true; done
	rm -rf "$DIR"
}

# orphans ends what still runs of a daemon that was killed: containerd, and its containers' shims.
orphans() {
	local p
	for p in /proc/[0-9]*; do
		case $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) in
		*" $DIR/"*) kill -9 "${p##*/}" 2>/dev/null || true ;;
		esac
	done
}

end() {
	local pid ids id
	pid=$(cat "$DIR/dockerd.pid" 2>/dev/null || true)
	ids=$(timeout 20 docker ps -aq 2>/dev/null || true)
	for id in $ids; do timeout 30 docker rm -f "$id" >/dev/null 2>&1 || true; done
	if [ -n "$pid" ]; then
		kill "$pid" 2>/dev/null || true
		for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
		kill -9 "$pid" 2>/dev/null || true
	fi
	ip link del "$BRIDGE" 2>/dev/null || true
	iptables -P FORWARD ACCEPT 2>/dev/null || true
	empty
}

# watch ends the daemon after its last user.
watch() {
	while sleep 1; do
		exec 9>"$DIR.lock"
		flock 9
		if ! alive; then
			end
			exit 0
		fi
		exec 9>&-
	done
}

start() {
	orphans
	empty
	mkdir -p "$DIR/users"
	chmod 755 "$DIR"
	# A dockerd that has to switch forwarding on cuts off everybody else's bridges.
	echo 1 >/proc/sys/net/ipv4/ip_forward
	# A bridge of its own: docker0 may be another dockerd's, which takes it along when it goes.
	ip link del "$BRIDGE" 2>/dev/null || true
	ip link add "$BRIDGE" type bridge
	ip addr add 10.213.213.1/24 dev "$BRIDGE"
	ip link set "$BRIDGE" up
	setsid dockerd --bridge "$BRIDGE" --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/dockerd.pid" -H "$DOCKER_HOST" \
		>"$DIR/dockerd.log" 2>&1 </dev/null 9>&- &
	for _ in $(seq 1200); do
		docker version >/dev/null 2>&1 && break
		sleep 0.1
	done
	docker version >/dev/null || { tail -5 "$DIR/dockerd.log" >&2; end; exit 1; }
	iptables -P FORWARD ACCEPT
	setsid bash "$HERE/dockerd.sh" --watch "$DIR" >/dev/null 2>&1 </dev/null 9>&- &
}

have() { docker image inspect "$1" >/dev/null 2>&1; }

images() {
	local tmp cache=${CACHE:-$DIR/cache}
	if ! have drover.test/static:1; then
		tmp=$(mktemp -d "$DIR/static.XXXXXX")
		(cd "$HERE/static" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$tmp/app" main.go)
		tar -C "$tmp" -c app | docker import -c 'ENTRYPOINT ["/app"]' - drover.test/static:1 >/dev/null
		rm -rf "$tmp"
	fi
	if ! have drover.test/debian:1; then
		mkdir -p "$cache"
		if [ ! -s "$cache/debian.tar" ]; then
			tmp=$(mktemp -d "$DIR/root.XXXXXX")
			debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$tmp" >"$DIR/debootstrap.log" 2>&1 ||
				{ tail -5 "$DIR/debootstrap.log" >&2; exit 1; }
			rm -rf "$tmp"/var/cache/apt/archives/*.deb "$tmp"/var/lib/apt/lists/*
			tar -C "$tmp" -cf "$cache/debian.tar.part" .
			mv "$cache/debian.tar.part" "$cache/debian.tar"
			rm -rf "$tmp"
		fi
		docker import -c 'CMD ["/bin/bash"]' -c 'ENV FROM_IMAGE=yes' "$cache/debian.tar" drover.test/bare:1 >/dev/null
		# It trusts whom this machine trusts: the way to the package index may lead through a proxy with its own authority.
		docker create --name drover-test-ca drover.test/bare:1 >/dev/null
		docker cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" drover-test-ca:/etc/ssl/certs/ca-certificates.crt >/dev/null
		docker commit drover-test-ca drover.test/debian:1 >/dev/null
		docker rm drover-test-ca >/dev/null
		# What the target chooses for Python 3.11, where no registry can be asked.
		docker tag drover.test/debian:1 python:3.11-slim
	fi
}

if [ "$1" = --watch ]; then
	DIR=$2
	export DOCKER_HOST="unix://$DIR/docker.sock"
	watch
fi
DIR=$1
PID=$2
[ ${#DIR} -le 80 ] || { echo "$DIR is too long for a socket's address" >&2; exit 2; }
export DOCKER_HOST="unix://$DIR/docker.sock"
unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
exec 9>"$DIR.lock"
flock 9
docker version >/dev/null 2>&1 || start
began "$PID" >"$DIR/users/$PID"
images
echo "$DOCKER_HOST"
