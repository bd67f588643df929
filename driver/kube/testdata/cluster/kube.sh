#!/usr/bin/env bash
# kube.sh: a real Kubernetes on one machine, from the Go module proxy and Debian alone, without Docker.
#
#   kube.sh build OUT                 OUT/hyperkube: etcd, apiserver, controller-manager, scheduler, kubelet, kubectl in one program
#   kube.sh up DIR BIN [PORT]         control plane on loopback and this machine's address; prints the admin kubeconfig's path
#   kube.sh node DIR BIN NAME [N]     one real node: a containerd of its own, a kubelet, pods on a bridge 10.88.0.0/16; N (0): one for each node
#   kube.sh powercut DIR NAME         ends all processes of a node at once: none of them tells the API server
#   kube.sh load DIR NAME TAR...      images (docker archives, image.py makes them) into that node
#   kube.sh nodedown DIR NAME
#   kube.sh down DIR
#
# Needs: go, openssl; for nodes root and Debian's containerd runc containernetworking-plugins conntrack iptables.
# Knobs: APISERVER_ARGS KCM_ARGS SCHED_ARGS KUBELET_SYNC (default 1m).
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VERSION=1.36.3

start() { # start DIR NAME words...: in a session of its own, its pid in DIR/run
	local dir=$1 name=$2
	shift 2
	setsid "$@" >"$dir/log/$name.log" 2>&1 </dev/null &
	echo $! >"$dir/run/$name.pid"
}

stop() { # stop DIR NAME [seconds]
	local pid
	pid=$(cat "$1/run/$2.pid" 2>/dev/null) || return 0
	kill "$pid" 2>/dev/null || true
	for _ in $(seq $((${3:-10} * 10))); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
	kill -9 "$pid" 2>/dev/null || true
	rm -f "$1/run/$2.pid"
}

until_true() { # until_true TRIES words...
	local n=$1
	shift
	for _ in $(seq "$n"); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
	return 1
}

build() {
	mkdir -p "$1"
	local out
	out=$(cd "$1" && pwd)
	[ -x "$out/hyperkube" ] && { echo "$out/hyperkube"; return; }
	# go.mod and go.sum lie beside this script: nothing is resolved, so nothing else is downloaded
	(cd "$HERE" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -o "$out/hyperkube" \
		-ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v$VERSION -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36" . >&2)
	echo "$out/hyperkube"
}

certificates() { # in DIR/pki
	openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 365 -subj /CN=drover-test-ca 2>/dev/null
	cert() { # cert NAME SUBJECT [SAN]
		openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
		openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" \
			-extfile <(echo "extendedKeyUsage=serverAuth,clientAuth"; [ -z "${3:-}" ] || echo "subjectAltName=$3") 2>/dev/null
	}
	cert apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:$ADDRESS"
	cert admin /O=system:masters/CN=admin
	cert kubelet-client /O=system:masters/CN=kubelet-client
	openssl genrsa -out sa.key 2048 2>/dev/null
	openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
}

up() {
	local D B P E
	mkdir -p "$1"/{pki,log,run}
	D=$(cd "$1" && pwd) B=$2 P=${3:-16443}
	E=$((P + 1))
	ADDRESS=$(hostname -I | awk '{print $1}')
	cd "$D/pki"
	[ -f sa.pub ] || certificates
	cat >"$D/admin.kubeconfig" <<-Y
		apiVersion: v1
		kind: Config
		clusters: [{name: test, cluster: {server: "https://127.0.0.1:$P", certificate-authority: "$D/pki/ca.crt"}}]
		users: [{name: admin, user: {client-certificate: "$D/pki/admin.crt", client-key: "$D/pki/admin.key"}}]
		contexts: [{name: test, context: {cluster: test, user: admin, namespace: default}}]
		current-context: test
	Y
	start "$D" etcd "$B" etcd "$D/etcd" "http://127.0.0.1:$E"
	# shellcheck disable=SC2086
	start "$D" apiserver "$B" kube-apiserver --etcd-servers="http://127.0.0.1:$E" --secure-port="$P" --bind-address=0.0.0.0 --advertise-address="$ADDRESS" \
		--tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --client-ca-file=ca.crt \
		--kubelet-client-certificate=kubelet-client.crt --kubelet-client-key=kubelet-client.key \
		--service-account-key-file=sa.pub --service-account-signing-key-file=sa.key --service-account-issuer=https://kubernetes.default.svc \
		--service-cluster-ip-range=10.0.0.0/24 --authorization-mode=Node,RBAC --allow-privileged=true \
		--kubelet-preferred-address-types=InternalIP,Hostname ${APISERVER_ARGS:-}
	until_true 600 "$B" kubectl --kubeconfig "$D/admin.kubeconfig" get --raw /readyz || { tail -5 "$D/log/apiserver.log" >&2; exit 1; }
	# shellcheck disable=SC2086
	start "$D" kcm "$B" kube-controller-manager --kubeconfig "$D/admin.kubeconfig" --service-account-private-key-file=sa.key --root-ca-file=ca.crt \
		--use-service-account-credentials=false --leader-elect=false --kube-api-qps=500 --kube-api-burst=1000 --node-monitor-grace-period=20s ${KCM_ARGS:-}
	# shellcheck disable=SC2086
	start "$D" scheduler "$B" kube-scheduler --kubeconfig "$D/admin.kubeconfig" --leader-elect=false --kube-api-qps=500 --kube-api-burst=1000 ${SCHED_ARGS:-}
	until_true 600 "$B" kubectl --kubeconfig "$D/admin.kubeconfig" -n default get sa default
	echo "$D/admin.kubeconfig"
}

node() {
	local D B NAME N NUMBER ROOT c
	D=$(cd "$1" && pwd) B=$2 NAME=$3 NUMBER=${4:-0}
	N=$D/node-$NAME
	ROOT=/
	if [ "$NUMBER" -gt 0 ]; then # a kubelet ends what it does not know below its cgroup
		ROOT=/drover-$NAME
		for c in /sys/fs/cgroup /sys/fs/cgroup/*; do [ -f "$c/cgroup.procs" ] && [ "$(basename "$c")" != "drover-$NAME" ] && mkdir -p "$c$ROOT"; done
		[ ! -f "/sys/fs/cgroup$ROOT/cgroup.subtree_control" ] || echo "+cpu +memory +pids" >"/sys/fs/cgroup$ROOT/cgroup.subtree_control"
	fi
	mkdir -p "$N"/{containerd,run,cni,kubelet,podlogs}
	cat >"$N/cni/10-bridge.conflist" <<-J
		{"cniVersion":"0.4.0","name":"drover","plugins":[
		 {"type":"bridge","bridge":"cni-drover","isGateway":true,"ipMasq":true,"hairpinMode":true,
		  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":"$D/ipam"}},
		 {"type":"portmap","capabilities":{"portMappings":true}}]}
	J
	# restrict_oom_score_adj: a machine without CAP_SYS_RESOURCE may not lower it, and runc then dies with a misleading word
	cat >"$N/containerd.toml" <<-T
		version = 2
		root = "$N/containerd"
		state = "$N/run"
		[grpc]
		address = "$N/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		sandbox_image = "drover.test/pause:1"
		restrict_oom_score_adj = true
		[plugins."io.containerd.grpc.v1.cri".cni]
		bin_dir = "/usr/lib/cni"
		conf_dir = "$N/cni"
		[plugins."io.containerd.grpc.v1.cri".containerd]
		snapshotter = "overlayfs"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		SystemdCgroup = false
	T
	ip netns list | cut -d' ' -f1 | sort >"$N/netns" # those that are not this node's pods
	start "$D" "containerd-$NAME" containerd --config "$N/containerd.toml"
	until_true 300 ctr -a "$N/containerd.sock" version
	cat >"$N/kubelet.yaml" <<-Y
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$D/pki/ca.crt"}}
		authorization: {mode: AlwaysAllow}
		oomScoreAdj: 0
		cgroupDriver: cgroupfs
		cgroupRoot: $ROOT
		enforceNodeAllocatable: []
		failCgroupV1: false
		failSwapOn: false
		containerRuntimeEndpoint: unix://$N/containerd.sock
		resolvConf: /etc/resolv.conf
		evictionHard: {memory.available: "100Mi", nodefs.available: "1%", nodefs.inodesFree: "1%", imagefs.available: "1%"}
		imageGCHighThresholdPercent: 100
		podLogsDir: $N/podlogs
		maxPods: 250
		registryPullQPS: 0
		serializeImagePulls: false
		syncFrequency: ${KUBELET_SYNC:-1m}
		nodeStatusUpdateFrequency: 5s
		localStorageCapacityIsolation: false
		port: $((10250 + 10 * NUMBER))
		healthzPort: $((10248 + 10 * NUMBER))
	Y
	start "$D" "kubelet-$NAME" "$B" kubelet --config "$N/kubelet.yaml" --kubeconfig "$D/admin.kubeconfig" --root-dir "$N/kubelet" --hostname-override "$NAME" --node-labels=type=real
	# shellcheck disable=SC2016
	until_true 1200 bash -c '"$0" kubectl --kubeconfig "$1" get node "$2" --no-headers | grep -q " Ready"' "$B" "$D/admin.kubeconfig" "$NAME" ||
		{ tail -5 "$D/log/kubelet-$NAME.log" >&2; exit 1; }
	# dockerd sets the policy of FORWARD to DROP, and bridges go through iptables
	iptables -C FORWARD -s 10.88.0.0/16 -j ACCEPT 2>/dev/null || iptables -I FORWARD -s 10.88.0.0/16 -j ACCEPT
	iptables -C FORWARD -d 10.88.0.0/16 -j ACCEPT 2>/dev/null || iptables -I FORWARD -d 10.88.0.0/16 -j ACCEPT
}

load() {
	local N=$1/node-$2
	shift 2
	for tar in "$@"; do ctr -a "$N/containerd.sock" -n k8s.io images import "$tar" >/dev/null; done
}

powercut() {
	local N=$1/node-$2 pid
	for pid in "kubelet-$2" "containerd-$2"; do kill -9 "$(cat "$1/run/$pid.pid")"; done
	# the shims, and what is below them
	for pid in $(pgrep -f -- "-address $N/containerd.sock"); do
		pgrep -P "$pid" | xargs -r kill -9
		kill -9 "$pid" || true
	done
}

nodedown() {
	local D N t
	local -a ctr
	D=$(cd "$1" && pwd)
	N=$D/node-$2
	stop "$D" "kubelet-$2"
	ctr=(timeout 5 ctr -a "$N/containerd.sock" -n k8s.io)
	for t in $("${ctr[@]}" task ls -q 2>/dev/null); do "${ctr[@]}" task kill -s KILL "$t" >/dev/null 2>&1 || true; done
	sleep 1
	for t in $("${ctr[@]}" c ls -q 2>/dev/null); do "${ctr[@]}" task rm -f "$t" >/dev/null 2>&1 || true; "${ctr[@]}" c rm "$t" >/dev/null 2>&1 || true; done
	stop "$D" "containerd-$2"
	{ grep -o "${N}[^ ]*" /proc/mounts || true; } | sort -r | while read -r m; do umount -l "$m" 2>/dev/null || true; done
	for t in $(ip netns list | cut -d' ' -f1 | sort | comm -13 "$N/netns" - | grep '^cni-'); do ip netns del "$t" || true; done
	ip link del cni-drover 2>/dev/null || true
	iptables -D FORWARD -s 10.88.0.0/16 -j ACCEPT 2>/dev/null || true
	iptables -D FORWARD -d 10.88.0.0/16 -j ACCEPT 2>/dev/null || true
	# the shims end with their tasks; cgroups of pods stay empty behind
	for c in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods "/sys/fs/cgroup/drover-$2" /sys/fs/cgroup/*/"drover-$2"; do [ -d "$c" ] && find "$c" -depth -type d -exec rmdir {} + 2>/dev/null; done || true
}

down() {
	local D n
	D=$(cd "$1" && pwd)
	for n in "$D"/node-*/; do [ -d "$n" ] && nodedown "$D" "$(basename "$n" | sed s/node-//)"; done || true
	for n in kwok scheduler kcm apiserver etcd; do stop "$D" "$n"; done
}

case ${1-} in
build | up | node | load | powercut | nodedown | down) "$@" ;;
*) sed -n '2,13p' "$0" >&2; exit 2 ;;
esac
