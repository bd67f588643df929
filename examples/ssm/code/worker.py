"""The worker of both parts; the hyperparameter task_type says of which.

Part 1 reads the inputs, counts its runs in the state, and leaves a model and an
output. Part 2 reads what part 1 has left. Both look for themselves whether all is
as simple-sagemaker's users know it, and end with 1 and a sentence if not.
"""

import io
import json
import logging
import os
import re
import sys
import tarfile
from pathlib import Path

import tabulate  # requirements.txt has it
from internal_dependency import lib
from worker_toolkit import worker_lib

logger = logging.getLogger(__name__)

FLOCK = {"north.txt": 12, "south.txt": 8}  # what the lines of data/ add up to


def check(holds, sentence):
    if not holds:
        sys.exit("worker: " + sentence)


def files(folder):
    """The files below a folder: their paths in it, and their texts."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def model_of(folder):
    """The files of a task's model, which SageMaker hands over packed."""
    packed = Path(folder, "model.tar.gz")
    if not packed.is_file():
        return files(folder)
    with tarfile.open(str(packed)) as tar:
        return {m.name.replace("./", "", 1): io.TextIOWrapper(tar.extractfile(m)).read() for m in tar if m.isfile()}


def share(config, channel, found, most):
    """Says whether a node of two has what its input's distribution promises."""
    how = json.loads(config.input_data_config)[channel]["S3DistributionType"]
    logger.info("%s: %d of %d files, %s: %s", channel, len(found), most, how, " ".join(sorted(found)))
    want = most // config.num_nodes if how == "ShardedByS3Key" else most
    check(len(found) == want, "%s: %d files, and not %d, which %s means" % (channel, len(found), want, how))


def job(config):
    """What holds in both parts."""
    check(config.num_nodes == 2 and config.hosts == ["algo-1", "algo-2"], "the hosts are %s" % config.hosts)
    check(config.current_host == config.hosts[config.host_rank], "rank %d is not %s" % (config.host_rank, config.current_host))
    check(os.environ["SSM_HOST_RANK"] == str(config.host_rank), "SSM_HOST_RANK is %s" % os.environ["SSM_HOST_RANK"])
    check(config.job_name, "the job has no name")
    check(config.hps == {"task_type": config.hps["task_type"]}, "the hyperparameters are %s" % config.hps)
    check(sys.argv[1:] == ["--task_type", config.hps["task_type"]], "the arguments are %s" % sys.argv[1:])
    check(os.environ["SM_HP_TASK_TYPE"] == config.hps["task_type"], "SM_HP_TASK_TYPE is %s" % os.environ["SM_HP_TASK_TYPE"])
    check(Path(config.instance_state) == Path(config.state, config.current_host), "the state is in %s" % config.instance_state)
    others = [p.name for p in Path(config.state).glob("algo-*") if p.name != config.current_host]
    check(not others, "the state of %s is here" % others)


def part1(config):
    check(config.channels == ["data", "persons"], "the channels are %s" % config.channels)
    persons = json.loads(Path(config.channel_persons, "persons.json").read_text())
    check([lib.initials(p["name"]) for p in persons] == ["AS", "BD"], "the persons are %s" % persons)
    data = files(config.channel_data)
    share(config, "data", data, len(FLOCK))
    rows = []
    for name, text in data.items():
        shorn = sum(int(line.split()[1]) for line in text.splitlines())
        check(shorn == FLOCK[name], "%s adds up to %d, and not %d" % (name, shorn, FLOCK[name]))
        rows.append((name, shorn))
        Path(config.model_dir, "%s_by_%s" % (name, config.current_host)).write_text("%d\n" % shorn)
    print(tabulate.tabulate(rows, headers=("field", "shorn")))

    runs = Path(config.instance_state, "runs")
    count = int(runs.read_text()) + 1 if runs.exists() else 1
    runs.write_text(str(count))
    Path(config.output_data_dir, "output_" + config.current_host).write_text("run %d" % count)


def part2(config):
    from external_dependency import lib as external

    check(config.channels == ["ex3_1_model", "ex3_1_state"], "the channels are %s" % config.channels)
    model = model_of(config.channel_ex3_1_model)
    fields = {name.split("_by_")[0]: int(text) for name, text in model.items()}
    check(fields == FLOCK, "the model of part 1 is %s" % model)
    state = files(config.channel_ex3_1_state)
    share(config, "ex3_1_state", state, 2)
    for name, text in state.items():
        check(re.match("algo-[12]/runs$", name) and int(text) >= 1, "the state of part 1 has %s with %r" % (name, text))
        Path(config.instance_state, name.replace("/", "_")).write_text(text)
    logger.info("Score=%g;", external.score(fields["north.txt"], sum(FLOCK.values())))
    logger.info("Score=%g;", external.score(sum(fields.values()), sum(FLOCK.values())))


def main():
    logging.basicConfig(stream=sys.stdout)
    config = worker_lib.WorkerConfig()
    parts = {"1": part1, "2": part2}
    check(isinstance(config.hps, dict) and config.hps.get("task_type") in parts, "no task_type in %s" % config.hps)
    job(config)
    parts[config.hps["task_type"]](config)
    logger.info("finished!")


if __name__ == "__main__":
    main()
