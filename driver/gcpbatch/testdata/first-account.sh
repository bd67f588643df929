#!/bin/sh
# What a project of Google Cloud would show first. It asks twelve questions of which this driver assumes the answers, and prints both. No test runs
# it, and it was never run: it needs gcloud, signed in, and costs about a dollar for an hour of small machines. What it has made it deletes.
#
#   driver/gcpbatch/testdata/first-account.sh PROJECT REGION
set -eu

project=$1 region=$2
jobs=https://batch.googleapis.com/v1/projects/$project/locations/$region/jobs
dir=$(mktemp -d)
made=

finish() {
	for j in $made; do api -X DELETE "$jobs/$j" >/dev/null || :; done
	rm -rf "$dir"
}
trap finish EXIT

api() { curl -sS -H "Authorization: Bearer $(gcloud auth print-access-token)" -H 'Content-Type: application/json' "$@"; }

# submit NAME RUNNABLES [POLICY] [RETRIES] makes a job of one task on one machine.
submit() {
	printf '{"taskGroups":[{"taskCount":"1","taskSpec":{"runnables":[%s],"maxRetryCount":%s,"computeResource":{"cpuMilli":"2000","memoryMib":"2000"},"lifecyclePolicies":[{"action":"RETRY_TASK","actionCondition":{"exitCodes":[75,50001]}}]}}],"allocationPolicy":{"instances":[{"policy":{"provisioningModel":"%s"}}]},"labels":{"drover_job":"first"},"logsPolicy":{"destination":"CLOUD_LOGGING"}}' \
		"$2" "${4:-0}" "${3:-STANDARD}" >"$dir/$1.json"
	api -X POST "$jobs?jobId=$1&requestId=$(cat /proc/sys/kernel/random/uuid)" -d "@$dir/$1.json" >"$dir/$1.answer"
	made="$made $1"
}

state() { api "$jobs/$1" | sed -n 's/^ *"state": "\([A-Z_]*\)".*/\1/p' | head -n 1; }

# until_ NAME STATES waits for one of them, up to 20 minutes.
until_() {
	for _ in $(seq 120); do
		case " $2 " in *" $(state "$1") "*) return 0 ;; esac
		sleep 10
	done
	echo "  it did not come to $2"
}

tasks() { api "$jobs/$1/taskGroups/group0/tasks"; }
logs() { gcloud logging read "labels.job_uid=\"$(sed -n 's/.*"uid": "\(.*\)",/\1/p' "$dir/$1.answer")\"" --project "$project" --freshness 1h --format 'value(textPayload)'; }
question() { printf '\n%s\n  assumed: %s\n  seen:\n' "$1" "$2"; }

script() { printf '{"script":{"text":"%s"}}' "$1"; }
container() { printf '{"container":{"imageUri":"mirror.gcr.io/library/debian:stable-slim","entrypoint":"/bin/sh","commands":["-c","%s"],"volumes":["/var/lib/google/drover:/var/lib/google/drover:ro"]}}' "$1"; }

name=first-$(date +%s)
submit "$name-a" "$(script 'mkdir -p /var/lib/google/drover; cp /bin/true /var/lib/google/drover/drover; . /etc/os-release; echo image $PRETTY_NAME; command -v curl wget python3 docker'),$(container 'env | grep BATCH_; /var/lib/google/drover/drover && echo runs; exit 75')" STANDARD 2
submit "$name-b" "$(container 'trap \"echo got TERM\" TERM; sleep 1200 & wait; wait')"
submit "$name-c" "$(container 'exit 9')" STANDARD 1
submit "$name-d" "$(container 'sleep 600')" SPOT 2

until_ "$name-a" 'FAILED SUCCEEDED'
question '1. Which image do machines have whose tasks have a script and a container, and which tools?' 'one with curl, wget or python3, and with Docker'
logs "$name-a"
question '2. Does a container see BATCH_TASK_INDEX and BATCH_TASK_RETRY_ATTEMPT?' 'it does'
logs "$name-a" | grep BATCH_ || echo none
question '3. Does a program run that a script has put on the machine?' 'it does'
logs "$name-a" | grep runs || echo no
question '4. Is a task that ends with 75 started again, and what do its events say?' 'twice, each with exitCode 75'
tasks "$name-a"

until_ "$name-b" RUNNING
api -X POST "$jobs/$name-b:cancel" -d '{}' >/dev/null
until_ "$name-b" CANCELLED
question '5. What is a running task sent when its job is cancelled?' 'nothing is relied upon'
logs "$name-b"
question '6. What do the events of a cancelled task say?' 'nothing is relied upon; its job is CANCELLED'
tasks "$name-b"

until_ "$name-c" 'FAILED SUCCEEDED'
question '7. Is a task started again that ends with a code of no policy?' 'either: agents end with 0 or 75'
tasks "$name-c"
question '8. Does a filter find a job by its label, and how soon?' 'at once, or within a minute'
api -G "$jobs" --data-urlencode 'filter=labels.drover_job="first"' | grep '"name"' || echo none
question '9. Does the same request make a second job?' 'it gives the job that is there, or says 409'
api -X POST "$jobs?jobId=$name-c&requestId=$(cat /proc/sys/kernel/random/uuid)" -d "@$dir/$name-c.json"

until_ "$name-d" RUNNING
question '10. What does a machine of spot capacity know of its end, and with which code does its task end?' 'instance/preempted is TRUE for 30 seconds; 50001'
echo "  simulate it by hand: gcloud compute instances simulate-maintenance-event \$(gcloud compute instances list --project $project --filter labels.batch-job-id=$name-d --format 'value(name)')"
tasks "$name-d"
question '11. In which words does a job say that a quota is used up?' 'an event of the job with QUOTA_EXCEEDED'
api "$jobs/$name-d" | grep -A6 statusEvents
question '12. By which labels does Cloud Logging find what a task printed?' 'job_uid, and task_id with group0-INDEX before a slash or its end'
gcloud logging read "logName=\"projects/$project/logs/batch_task_logs\"" --project "$project" --freshness 1h --limit 3 --format 'value(labels)'
