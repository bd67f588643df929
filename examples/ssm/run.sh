#!/bin/sh
# Two tasks as their users type them for simple-sagemaker, the second with what the
# first left; in a store of its own, which is gone afterwards. What comes back is in
# out3/ and out4/. sh run.sh PROGRAM has another one than bin/drover do it, such as
# a link of your own to it.
set -eu
ssm=${1:-${DROVER:-$(cd "$(dirname "$0")/../.." && pwd)/bin/drover}}
case $ssm in
/*) ;;
*/*) ssm=$PWD/$ssm ;;
*) ssm=$(command -v "$ssm") || ssm=$1 ;;
esac
if [ ! -x "$ssm" ]; then
	echo "find $ssm: it is not there: run make build, or say sh run.sh path/to/ssm" >&2
	exit 125
fi
cd "$(dirname "$0")"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/bin"
ln -s "$ssm" "$made/bin/ssm" # by that name drover is simple-sagemaker's program
ln -s "$ssm" "$made/bin/drover"
PATH=$made/bin:$PATH
DROVER_STORE=$made/store
export DROVER_STORE PATH
rm -rf out3 out4

# same FILE TEXT: the file is there, and this is what it says.
same() {
	if [ ! -f "$1" ]; then
		echo "$1 did not come back" >&2
		exit 1
	fi
	if [ "$(cat "$1")" != "$2" ]; then
		echo "$1 says $(cat "$1"), and not $2" >&2
		exit 1
	fi
}

# says FILE TEXT: a log has this.
says() {
	if ! grep -q -- "$2" "$1"; then
		echo "$1 does not say $2" >&2
		exit 1
	fi
}

# part1 WORDS...: part 1, forced or not, and what must be there after it.
part1() {
	ssm run -p ssm-ex -t ex3-1 -s ./code -e worker.py \
		-i ./data ShardedByS3Key \
		--iis persons "file://$PWD/persons.json" \
		--no_spot --ic 2 --task_type 1 -o ./out3 "$@" \
		--download_state --download_model --download_output
	same out3/state/algo-1/runs "$runs"
	same out3/state/algo-2/runs "$runs"
	same out3/output/output_algo-1 "run $runs"
	for node in 0 1; do
		says "out3/logs/logs$node" 'finished!'
	done
	for field in north:12 south:8; do
		found=$(cat "out3/model/${field%:*}.txt_by_"algo-? | sort -u)
		if [ "$found" != "${field#*:}" ]; then
			echo "the model says $found of ${field%:*}, and not ${field#*:}" >&2
			exit 1
		fi
	done
}

runs=1
part1 --force_running

ssm run -p ssm-ex -t ex3-2 -s ./code -e worker.py -d ./external_dependency \
	--iit ex3_1_model ex3-1 model \
	--iit ex3_1_state ex3-1 state ShardedByS3Key \
	-f tensorflow --md "Score" "Score=(.*?);" --tag MyTag MyValue \
	--ic 2 --task_type 2 -o ./out4 --download_state
# Each node had its share of the state, and together they had it all.
if [ "$(cat out4/state/algo-?/algo-1_runs out4/state/algo-?/algo-2_runs | tr '\n' ' ' | tr -d ' ')" != 11 ]; then
	echo "the two nodes of part 2 did not share the state of part 1" >&2
	exit 1
fi
for node in 0 1; do
	says "out4/logs/logs$node" 'Score=60;'
	says "out4/logs/logs$node" 'Score=100;'
done
drover metrics ex3-2 Score -p ssm-ex --csv >"$made/points"
says "$made/points" ',0,Score,1,60$'
says "$made/points" ',1,Score,2,100$'
drover status ex3-2 -p ssm-ex --json >"$made/status"
says "$made/status" '"MyTag":"MyValue"'

# Complete: it is not run again, and what it left is there.
rm -rf out3
part1

# Forced, it goes on from its state.
runs=2
part1 --force_running
echo "all is there"
