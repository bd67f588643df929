#!/bin/sh
# What SageMaker does for one host of a training job: /opt/ml and /etc/hosts are
# its own, and the image's "train" is started in the environment it sets.
#
#     unshare --mount --propagation private sh service.sh FOLDER TRAIN NAME=VALUE...
#
# FOLDER holds ml, which becomes /opt/ml, and hosts, which becomes /etc/hosts.
set -eu
folder=$1 train=$2
shift 2

# /opt may have no ml to mount on. The rest of it stays: Python may live there.
mkdir -p "$folder/opt"
mount --rbind /opt "$folder/opt"
mount -t tmpfs tmpfs /opt
for entry in "$folder"/opt/*; do
    name=${entry##*/}
    if [ ! -d "$entry" ] || [ "$name" = ml ]; then continue; fi
    mkdir "/opt/$name"
    mount --rbind "$entry" "/opt/$name"
done
mkdir /opt/ml
mount --bind "$folder/ml" /opt/ml
mount --bind "$folder/hosts" /etc/hosts

cd /
exec env -i PATH="${train%/*}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root "$@" "$train"
