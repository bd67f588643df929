// Package manual has the texts of drover help: its first page, examples of each verb, and
// topics. Proved by the reference, which is made from it.
package manual

// Front is the first screen: four examples, the ten verbs that most people need, and
// the others by name.
const Front = `drover runs the code you already have, here or elsewhere, and brings the results back.

  drover run train.py --epochs 3           run a script with its arguments, and follow it
  drover run -t digits -o out train.py     a named task: state survives, complete is skipped
  drover shell 'nvidia-smi -L | wc -l'     one command line
  drover map --from items.txt ./work.sh {} each line an item; results are recorded once

drover's own flags come before the script; everything after it is the script's.

  run      Run a script or program and follow it; again: attach, resume or skip
  shell    Run one shell command line
  map      Run a program for each of many items; again: the failed and the new ones
  status   Jobs and their progress (also ls, ps); one job in full with an id
  logs     Print, follow (-f) or search (--search) what a job printed
  why      Explain why a job failed, waits or stopped, and what would change it
  get      Bring a job's outputs and logs; a task's state; or files from a bucket
  resume   Continue an unfinished job
  cancel   End jobs for good
  doctor   Check this machine, the store and what was left behind

More
  Jobs     attach (a shell beside a program), wait, events, metrics (plots numbers), top
  Maps     items, results, retry (failed items), pause, verify (recompute from the store)
  Data     put (files to a bucket), data (what a task keeps), gc (remove old jobs)
  Places   target, down (undo target up), offers (what is free), worker, queue (who waits for this machine), image
  Set up   init (drover.yaml), config, completion, version, help
  Tools    process (a SageMaker processing job), ssm (simple-sagemaker's command lines)

drover help VERB has examples and flags; drover help exit-codes, environment, jobs and
second-command explain the rules. A JOB is an id, the beginning of one, a task, task#3, or last.
`

// Examples lead each verb's help.
var Examples = map[string]string{
	"run": `  drover run train.py --epochs 3              its folder comes along; it runs in a copy
  drover run -o out train.py                  bring model/, output/, files/ and logs/ into out
  drover run -p vision -t resnet train.py     project and task by name
  drover run -i ./data --timeout 2h train.py  data at /opt/ml/input/data (SM_CHANNEL_DATA)
  drover run python3 -c 'print(6*7)'          a program: the project around the current folder comes along
  seq 10 | drover run wc -l                   it reads standard input, on this machine
  drover run --nodes 2 --launcher torch train.py
                                              two nodes: RANK, WORLD_SIZE, MASTER_ADDR ... are set
  drover run --launcher mpi --procs-per-node 4 solve
                                              below mpiexec, four processes on each node
  drover run --cpus 2 --memory 8G train.py    waits until there is room, and keeps to that
  drover run -i 'data/*.csv' --input m=task:train/model test.py
                                              a glob, and what another task has left
  drover run --secret WANDB_API_KEY train.py  a value that drover does not keep
  drover run job.yaml                         everything from a file: drover config schema`,
	"shell": `  drover shell 'echo $((6*7)) | tr 4 5'`,
	"process": `  drover process -i ./raw -o out prep.py      finds /opt/ml/processing/input/data
  drover process -i raw=./raw:/opt/ml/processing/raw --result clean=/opt/ml/processing/clean prep.py
  drover process --entrypoint 'bash -e' prep.sh --fast`,
	"map": `  drover map --from urls.txt -- ./fetch.sh {}      each line is an argument
  seq 1000 | drover map --from - -j 8 -- ./work {} standard input; 8 at once
  drover map --from 'photos/*.jpg' --out 'small/{.stem}.jpg' -o out -- convert {} -resize 200 {out}
                                                   files in, files out: brought into out/small
  drover map --from urls.txt --fetch --out '{.stem}.png' -o out -- convert {} -resize 64x64 {out}
                                                   addresses: each is downloaded before it begins
  drover map --from samples.csv -- ./align {name} {file}
                                                   CSV and JSON lines: fields by name
  drover map --from 1-100 --retries 2 --item-timeout 5m --max-fails 5% -- ./sim --seed {}
  drover map --from 1-100 --retries 3 --retry-on 75,OOM --memory 2G --memory-step 2x -- ./sim {}
  drover map --from list.txt --out '{.stem}.count' --shell 'grep -c x {} | tee {out}'
  drover map --from 1-1000 --memory 2G --workers 3 -- ./big {}

  {} the item   {n} its number   {.stem} {.name} {.dir} {.ext} of it as a path   {field} {field.stem}
  {out} {out2}  where the first and second --out is written   {{}} writes {}
  Nothing is pasted into a shell; the item is in $DROVER_ITEM too.`,
	"items":   "  drover items last\n  drover items last --state failed\n  drover items last 123\n  drover items last --slowest 20",
	"results": "  drover results last\n  drover results last --json | jq -r 'select(.state==\"SUCCEEDED\").stdout'\n  drover results last --csv > results.csv\n  drover results last --top 5 --by acc\n  drover results last --top 3 --by eval.loss --asc --json",
	"verify":  "  drover verify last\n  drover verify last --json",
	"top":     "  drover top\n  drover top digits",
	"metrics": "  drover metrics last\n  drover metrics digits loss val_loss\n  drover metrics last --usage\n  drover metrics last --csv > points.csv",
	"put":     "  drover put ./photos s3://bucket/photos            again: only what is new or changed\n  drover put digits state ./vocabulary",
	"data":    "  drover data digits\n  drover data digits -o out\n  drover data digits --clear state",
	"attach":  "  drover attach last                   a shell where rank 0, or a map's first agent, runs\n  drover attach digits 1 -- nvidia-smi   one command beside node 1\n  drover attach 7fk2 1-0-33b2            beside the agent that drover worker ls shows\n\n  What a live job prints is followed by its command, typed again, or drover logs -f.\n  Values of secrets are not there.",
	"target":  "  drover target ls\n  drover target add big --on slurm/gpu --arg --account=bio --max-workers 16 --max-time 12h\n  drover run --on big train.py\n  drover target test big\n  drover target up batch --plan",
	"down":    "  drover down batch --plan\n  drover down batch --yes",
	"offers":  "  drover offers\n  drover offers slurm --gpus 2 --memory 64G --nodes 4\n  drover offers --json",
	"worker":  "  drover worker ls\n  drover worker ls last --all\n  drover worker drain 1-0-33b2 --reason 'the machine is wanted'",
	"queue":   "  drover queue ls\n  drover queue pause night\n  drover config set targets.local.queues.night.cpus 2",
	"image": `  drover image build                            the Dockerfile of this folder
  drover image build --image python:3.12 $'RUN pip install numpy\nCOPY . /app'
  drover image build docker/ -f pytorch:2.8.0   __BASE_IMAGE__ is the framework's image
  drover image build --push ghcr.io/me          copies files alone: needs no Docker
  drover image build -o image.tar && drover image push image.tar ghcr.io/me
  drover image copy python:3.12-slim 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team
  drover image agent ghcr.io/me                 for --target-arg agent-image of Kubernetes
  drover image ls`,
	"gc":     "  drover gc --dry-run\n  drover gc --keep 3 --older 30d\n  drover gc 7fk2",
	"status": "  drover status\n  drover status --tag team=vision\n  drover status last\n  drover status --json | jq -r '.[0].state'",
	"logs":   "  drover logs last\n  drover logs last --node 1\n  drover logs last --item 17\n  drover logs -f digits\n  drover logs last --tail 20 --timestamps\n  drover logs last --search 'loss=0\\.' -C 2",
	"events": "  drover events last\n  drover events -f last --json",
	"why":    "  drover why last",
	"get":    "  drover get last -o out\n  drover get digits state -o state\n  drover get s3://bucket/photos ./photos            again: only what is new or changed\n  drover get 's3://public-data/2024?anonymous=true' data",
	"wait":   "  drover wait last && echo done\n  drover wait last --notify 'notify-send \"$DROVER_TASK $DROVER_STATE\"'",
	"retry":  "  drover retry last\n  drover retry last --error 'cannot identify'\n  drover retry last --state failed --items 1-100,998 --memory 16G --timeout 2h\n  drover retry last --new-code",
	"resume": "  drover resume last\n  seq 10 | drover resume last                 what its program read from a pipe or file, again",
	"pause":  "  drover pause last --reason 'the licence server is down'",
	"cancel": "  drover cancel 7fk2 --reason 'wrong data'\n  drover cancel 7fk2 --grace 2s\n  drover cancel 7fk2 --drain",
	"init":   "  drover init -p vision\n  drover init --store s3://bucket/prefix      tried out first",
	"doctor": "  drover doctor",
	"config": "  drover config\n  drover config set store /data/drover\n  drover config explain store\n  drover config schema > job.schema.json\n  drover config module > drover.py",
	"ssm":    "  ssm shell -p ssm-ex -t ex1 -o ./out1 --cmd_line 'cat /proc/cpuinfo && uname -a'\n  ssm run -p ssm-ex -t ex2 -e worker.py -o ./out2 --ic 2 --epochs 3 -- --verbose\n  drover ssm data -p ssm-ex -t ex2 -o ./out2 --download_model",
}

// Topics are the pages that belong to no verb.
var Topics = map[string]string{
	"exit-codes": `Exit statuses

  0            success, or complete already and skipped
  the program's own, of run, shell and wait; 128+N when a signal N ended it
  1            items of a map failed; something was looked for and not there (logs
               --search, doctor); verify has a finding
  2            the command line or a file is wrong; nothing was changed
  3            --plan: complete already, nothing to do
  124          the time limit was reached (--timeout)
  125          drover or the machine failed, not the program: it never ran
  130          interrupted (Ctrl-C) or cancelled
  141          nobody reads stdout any more: drover run train.py | head
`,
	"environment": `Environment variables

  DROVER_STORE     where facts are kept, as --store
  DROVER_ON        target, as --on
  DROVER_PROJECT   project, as -p
  DROVER_PYTHON    interpreter, as --python
  DROVER_OUTPUT    folder for outputs, as -o
  DROVER_IMAGE_MIRROR
                   registry prefix that holds the framework images of --framework
  AWS_REGION, AWS_DEFAULT_REGION
                   whose registry has them otherwise
  DOCKER_HOST      the Docker that builds images, and runs them with --on docker (default: unix:///var/run/docker.sock)
  XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME
                   where the default store, running jobs, environments and the config lie
  NO_COLOR, CLICOLOR_FORCE
                   never, or always, colour

A program finds SageMaker's variables (SM_MODEL_DIR, SM_CHANNEL_..., SM_HPS ...) and
DROVER_JOB, DROVER_TASK, DROVER_ATTEMPT, DROVER_RANK, DROVER_NODES, DROVER_CHECKPOINT_DIR,
DROVER_STATE_DIR, DROVER_MODEL_DIR, DROVER_OUTPUT_DIR, and DROVER_NOTICE: a file that appears
when it is about to be stopped. With several nodes also MASTER_ADDR,
MASTER_PORT and DROVER_PEERS; RANK, WORLD_SIZE and TF_CONFIG only with --launcher torch or tf.
What --notify runs finds DROVER_JOB, DROVER_PROJECT, DROVER_TASK, DROVER_STATE (SUCCEEDED, FAILED or
CANCELLED), DROVER_REASON, DROVER_EXIT (the exit status) and, of a map, DROVER_TALLY.
Each item of a map finds DROVER_ITEM, DROVER_ITEM_N (its number), DROVER_ITEM_TRY, DROVER_OUT
(where the first --out is written), DROVER_SLOT, DROVER_ITEM_<FIELD> for CSV and JSON lines,
and with --fetch DROVER_ITEM_FILE (and DROVER_ITEM_<FIELD>_FILE): where the file lies. The file
that DROVER_NOTICE names appears when items are to end: their agent must go, or the job was cancelled.
`,
	"jobs": `How jobs are named

  project > task > job. A task is a named logical step; a job is one execution of it.

  7fk2            a job's id, or the beginning of one
  digits          a task of this project: its newest job
  digits#3        its third job
  vision/digits   a task of another project
  last            the newest job of the store
`,
	"second-command": `What a second command does

What was typed is what runs. The same command, while the last job of its task

  is live                    attaches: output goes on, nothing is started twice
  was interrupted            goes on from the last checkpoint; when the code or the inputs
                             changed, a new job begins from those checkpoints
  succeeded                  runs again; with -t it is skipped while code, inputs, arguments
                             and settings are the same, and says what changed otherwise
  failed or was cancelled    is a new job, from its checkpoints; --force begins with none

The same command with other settings (--env, --python, --memory, --timeout, --on ..., what
standard input holds, and variables that a program on this machine inherits, but for those
of the terminal)

  while it is live           is another job beside it; with -t it is refused
  interrupted or failed      goes on from its checkpoints, with these
  succeeded, with -t         runs again, and says what changed

A map goes on as the same job: items that failed or were cancelled run again, items that are
new are added, also while it is live, and items no longer given keep their results. Other
settings, such as more --memory, bind what begins from then on; while it is live they are
refused. When the code or the command changed, it is a new job; --force makes one too.

A task named with -t that was begun in another folder of the same name is refused: -p decides.

A file on standard input is the same by its contents; a pipe is another one each time. drover
resume needs it again.

Ctrl-C sends SIGINT, as at a terminal, and leaves the job INTERRUPTED: the same command, or
drover resume, goes on. A second Ctrl-C sends SIGTERM, a third kills the program.
`,
}
