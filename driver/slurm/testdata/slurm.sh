#!/usr/bin/env bash
# slurm.sh DIR PID [NODES [CPUS]]: a private Slurm cluster on this machine, for as long as
# process PID lives. It prints SLURM_CONF.
#
# It needs root, slurm-wlm and munge; with ACCOUNTS slurmdbd and mariadb-server, too. Each
# cluster has ports, a munge socket and a folder of its own, so several may be up at
# once; the last line of its life is the watcher's. Variables, those of tests with
# networks first:
#
#	NODE_PREFIX   words before each slurmd, %n is the node's number: "ip netns exec h%n"
#	NODE_ADDRESS  where slurmctld finds node %n: "10.77.0.1%n"; 127.0.0.1
#	CTL_ADDRESS   where nodes find slurmctld; 127.0.0.1
#	ACCOUNTS      yes: slurmdbd and its database are there, and sacct knows of jobs
#	MIN_JOB_AGE   for how many seconds slurmctld knows a job that has ended; 300
#	NODE_TIMEOUT  for how many seconds a node may be silent before it is down; 120
#
# Nodes are n1, n2, ...; each says that it has CPUS cores, 4 GB and two GPUs (which are
# empty files). Partitions: main, the default one; spot and cheap, which main preempts:
# spot's jobs are requeued, cheap's are cancelled six seconds after they were told;
# short, whose jobs may take two minutes; closed, which is down. A job that is requeued
# begins again after cred_expire; what is not begun in that time, on a machine that has
# much to do, never is, and takes its node along.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | grep -v '^Z' | cut -d' ' -f20; }

end() {
	local f pid
	for f in "$DIR"/run/slurmctld.pid "$DIR"/run/slurmd.*.pid "$DIR"/run/slurmdbd.pid "$DIR"/run/mariadbd.pid "$DIR"/munge/munged.pid; do
		pid=$(cat "$f" 2>/dev/null || true)
		if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; fi
	done
	for _ in $(seq 50); do
		ours >/dev/null || break
		sleep 0.1
	done
	# What jobs have left, and daemons that would not go: all that knows our folder.
	ours | xargs -r kill -9 2>/dev/null || true
	rm -rf "$DIR" "$DIR.lock"
}

# ours are the daemons and step daemons of this cluster, by their environment.
ours() {
	local p found=1
	for p in /proc/[0-9]*; do
		case "$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null | cut -c1-200)" in
		slurmctld* | slurmd* | slurmstepd* | mariadbd* | munged*)
			if tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx "DROVER_TEST_SLURM=$DIR"; then
				echo "${p#/proc/}"
				found=0
			fi
			;;
		esac
	done
	return $found
}

watch() {
	while [ "$(began "$PID")" = "$SINCE" ]; do sleep 1; done
	end
}

# ports finds N free ones in a row.
ports() {
	local n=$1 base used
	used=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '{split($2, a, ":"); print a[2]}' | sort -u)
	for _ in $(seq 200); do
		base=$((11000 + RANDOM % 18000)) # below what the kernel gives away by itself
		local p ok=1
		for p in $(seq "$base" $((base + n))); do
			if grep -qix "$(printf '%04X' "$p")" <<<"$used"; then ok=0; break; fi
		done
		[ $ok = 1 ] && { echo "$base"; return; }
	done
	echo "find ports: none is free" >&2
	return 1
}

node() { echo "${1//%n/$2}"; }

# accounting is where slurmctld writes down what becomes of jobs.
accounting() {
	if [ "${ACCOUNTS:-}" = yes ]; then
		echo "AccountingStorageType=accounting_storage/slurmdbd"
		echo "AccountingStorageHost=127.0.0.1"
		echo "AccountingStoragePort=$(($1 + NODES + 2))"
		echo "AccountingStoragePass=$DIR/munge/munge.socket" # not AuthInfo
	else
		echo "AccountingStorageType=accounting_storage/none"
	fi
}

# accounts begins slurmdbd and its database, which is empty and forgets all it has been
# told when the machine fails.
accounts() {
	mkdir -p "$DIR/db"
	cat >"$DIR/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$(($1 + NODES + 2))
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile=$DIR/log/slurmdbd.log
PidFile=$DIR/run/slurmdbd.pid
CONF
	chmod 600 "$DIR/slurmdbd.conf"
	export MYSQL_UNIX_PORT=$DIR/db/socket # for slurmdbd
	setsid mariadbd --no-defaults --user=root --datadir="$DIR/db" --socket="$MYSQL_UNIX_PORT" --pid-file="$DIR/run/mariadbd.pid" \
		--skip-networking --skip-grant-tables --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-buffer-pool-size=16M \
		--innodb-log-file-size=8M --innodb-lock-wait-timeout=900 >"$DIR/log/mariadbd.log" 2>&1 </dev/null 9>&- &
	for _ in $(seq 900); do
		[ -S "$MYSQL_UNIX_PORT" ] && break
		sleep 0.1
	done
	slurmdbd >"$DIR/log/dbd.out" 2>&1 </dev/null 9>&-
	for _ in $(seq 900); do
		sacctmgr -n show cluster >/dev/null 2>&1 && return
		sleep 0.1
	done
	tail -5 "$DIR"/log/* >&2
	return 1
}

config() {
	local host base=$1 i ctl=${CTL_ADDRESS:-127.0.0.1}
	host=$(hostname -s)
	cat <<CONF
ClusterName=drover
SlurmctldHost=$host($ctl)
SlurmctldPort=$base
SlurmdPort=$((base + 1))
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/munge.socket,cred_expire=15
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmdPidFile=$DIR/run/slurmd.%n.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_resolution=1
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout=${NODE_TIMEOUT:-120}
KillWait=10
MinJobAge=${MIN_JOB_AGE:-300}
MaxArraySize=${MAX_ARRAY:-1001}
MaxJobCount=50000
JobRequeue=1
$(accounting "$base")
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=00:00:00
SlurmdParameters=config_overrides
GresTypes=gpu
CONF
	for i in $(seq "$NODES"); do
		echo "NodeName=n$i NodeHostname=$host NodeAddr=$(node "${NODE_ADDRESS:-127.0.0.1}" "$i") Port=$((base + 1 + i)) CPUs=$CPUS RealMemory=4096 Gres=gpu:2 State=UNKNOWN"
	done
	cat <<CONF
PartitionName=main Nodes=n[1-$NODES] Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=spot Nodes=n[1-$NODES] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=cheap Nodes=n[1-$NODES] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=6
PartitionName=short Nodes=n[1-$NODES] MaxTime=2 State=UP PriorityTier=10
PartitionName=closed Nodes=n1 MaxTime=INFINITE State=DOWN PriorityTier=10
CONF
}

start() {
	local base i
	mkdir -p "$DIR"/{state,log,run,spool,dev,munge}
	for i in $(seq "$NODES"); do mkdir -p "$DIR/spool/n$i"; done
	chmod 755 "$DIR" "$DIR/munge"
	export DROVER_TEST_SLURM=$DIR
	dd if=/dev/urandom bs=128 count=1 of="$DIR/munge/munge.key" 2>/dev/null
	chmod 600 "$DIR/munge/munge.key"
	munged --force --key-file="$DIR/munge/munge.key" --socket="$DIR/munge/munge.socket" --pid-file="$DIR/munge/munged.pid" \
		--log-file="$DIR/munge/munged.log" --seed-file="$DIR/munge/munged.seed" >"$DIR/log/munged.out" 2>&1 9>&-
	base=$(ports $((NODES + 3)))
	config "$base" >"$DIR/slurm.conf"
	touch "$DIR"/dev/gpu{0,1} # gres wants files
	echo "NodeName=n[1-$NODES] Name=gpu File=$DIR/dev/gpu[0-1]" >"$DIR/gres.conf"
	: >"$DIR/cgroup.conf"
	export SLURM_CONF=$DIR/slurm.conf
	if [ "${ACCOUNTS:-}" = yes ]; then accounts "$base"; fi
	slurmctld >"$DIR/log/ctl.out" 2>&1 </dev/null 9>&-
	for i in $(seq "$NODES"); do
		# shellcheck disable=SC2046 # a prefix is words
		$(node "${NODE_PREFIX:-}" "$i") slurmd -N "n$i" >"$DIR/log/n$i.out" 2>&1 </dev/null 9>&-
	done
	for _ in $(seq 900); do
		[ "$(timeout 5 sinfo -h -N -p main -o %T 2>/dev/null | grep -c '^idle$')" = "$NODES" ] && return
		sleep 0.1
	done
	tail -5 "$DIR"/log/* >&2
	return 1
}

DIR=$1
PID=$2
NODES=${3:-4}
CPUS=${4:-4}
if [ "${5:-}" = --watch ]; then
	SINCE=$6
	watch
	exit 0
fi
[ ${#DIR} -le 80 ] || { echo "$DIR is too long for a socket's address" >&2; exit 2; }
# Those that start at the same time must not find the same ports free.
exec 9>/tmp/drover-slurm.lock
flock 9
rm -rf "$DIR"
start || { end; exit 1; }
setsid bash "$HERE/slurm.sh" "$DIR" "$PID" "$NODES" "$CPUS" --watch "$(began "$PID")" >/dev/null 2>&1 </dev/null 9>&- &
echo "$DIR/slurm.conf"
