#!/usr/bin/env bash
# bench.sh DROVER: bench/kube on a cluster of its own on this machine, with a real S3 server; it leaves nothing behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
drover=$(realpath "$1")
dir=$(mktemp -d)
hyperkube=$root/bin/kube/hyperkube
server=
trap '[ -z "$server" ] || kill "$server"; "$here/kube.sh" down "$dir"; rm -rf "$dir"' EXIT
"$here/kube.sh" build "$(dirname "$hyperkube")" >/dev/null
gateway=$(sh "$root/store/testdata/servers.sh" versitygw)
"$here/kube.sh" up "$dir" "$hyperkube" >/dev/null
"$here/kube.sh" node "$dir" "$hyperkube" node-1
mkdir "$dir/agent"
cp "$drover" "$dir/agent/drover-agent"
"$here/images.sh" pause "$dir/pause.tar"
"$here/images.sh" busybox "$dir/busybox.tar"
python3 "$here/image.py" "$dir/agent.tar" drover.test/agent:1 "$dir/agent" /drover-agent
"$here/kube.sh" load "$dir" node-1 "$dir"/{pause,busybox,agent}.tar
printf '#!/bin/sh\nexec %s kubectl --kubeconfig %s "$@"\n' "$hyperkube" "$dir/admin.kubeconfig" >"$dir/kubectl"
chmod +x "$dir/kubectl"
"$dir/kubectl" create namespace train >/dev/null
mkdir -p "$dir/s3/drover"
address=$(hostname -I | awk '{print $1}')
export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=benchsecret AWS_REGION=us-east-1 AWS_ENDPOINT_URL=http://$address:17070
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY "$gateway" --port 0.0.0.0:17070 --region us-east-1 posix "$dir/s3" >"$dir/s3.log" 2>&1 &
server=$!
export KUBECONFIG=$dir/admin.kubeconfig DROVER_STORE=s3://drover/bench
cd "$root"
go run ./bench/kube -drover "$drover" -kubectl "$dir/kubectl" -namespace train -image drover.test/busybox:1 -agent-image drover.test/agent:1
