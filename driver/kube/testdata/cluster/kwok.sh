#!/usr/bin/env bash
# kwok.sh DIR BIN KWOK [NODES]: nodes that kwok plays (1,000), every second one with a label and a taint of spot capacity, beside
# the cluster of kube.sh in DIR. Their pods run as soon as they have a node, and are no processes.
#
# The cluster needs KCM_ARGS=--node-monitor-grace-period=300s: on a busy machine kwok's heartbeats come late, and all pods are evicted.
set -euo pipefail
D=$1 B=$2 KWOK=$3 N=${4:-1000}
export KUBECONFIG=$D/admin.kubeconfig
S=$(go env GOMODCACHE)/sigs.k8s.io/kwok@v0.8.0/kustomize/stage
for f in "$S"/node/fast/node-initialize.yaml "$S"/node/heartbeat-with-lease/*.yaml "$S"/pod/fast/pod-{ready,delete}.yaml; do
	if grep -q '^kind: Stage' "$f"; then
		cat "$f"
		printf '\n---\n'
	fi
done >"$D/stages.yaml"
setsid "$KWOK" --kubeconfig "$KUBECONFIG" --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds=200 \
	-c "$D/stages.yaml" --server-address=127.0.0.1:10247 >"$D/log/kwok.log" 2>&1 </dev/null &
echo $! >"$D/run/kwok.pid"
python3 - "$N" >"$D/nodes.json" <<'P'
import json, sys
room = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"}
def node(i):
    name, taints = f"kwok-{i:05d}", [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "g5.xlarge",
              "topology.kubernetes.io/zone": f"zone-{i % 3}", "karpenter.sh/nodepool": "kwok", "karpenter.sh/capacity-type": "spot" if i % 2 else "on-demand"}
    if i % 2:
        taints.append({"key": "spot", "value": "true", "effect": "NoSchedule"})
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}, "labels": labels},
            "spec": {"taints": taints}, "status": {"allocatable": room, "capacity": room, "phase": "Running"}}
json.dump({"apiVersion": "v1", "kind": "List", "items": [node(i) for i in range(int(sys.argv[1]))]}, sys.stdout)
P
"$B" kubectl create -f "$D/nodes.json" --validate=false >/dev/null 2>"$D/log/nodes.err" || tail -n 3 "$D/log/nodes.err" >&2
for _ in $(seq 300); do
	[ "$("$B" kubectl get nodes --no-headers 2>/dev/null | grep -c ' Ready')" -ge "$N" ] && exit
	sleep 1
done
echo "kwok's nodes are not ready" >&2
exit 1
