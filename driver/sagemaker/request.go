package sagemaker

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// What SageMaker takes at most. Source: CreateTrainingJob in its API reference, 2026-11.
const (
	mostVariables = 100
	mostArgument  = 256 // letters of an argument
	mostArguments = 100
	mostTags      = 50

	mostHyperparameters    = 100
	mostHyperparameterName = 256
	mostHyperparameter     = 2500
	mostMetrics            = 40
	mostMetricName         = 255
	mostMetricRegex        = 500
)

// usualDisk is the disk of a machine, in GB, where none is asked for.
const usualDisk = 30

// mostKeep is how long SageMaker keeps machines at most. Source: KeepAlivePeriodInSeconds in its API reference, 2026-11.
const mostKeep = 6 * time.Hour

// saveTime is what a job has beyond its program's time limit, to begin and to save.
const saveTime = 10 * time.Minute

// longTime is the time limit of a job of which none was said: SageMaker's most without a request for more.
const longTime = 5 * 24 * time.Hour

// programFile is where a container has drover's program. A variable for tests, which run containers
// as processes of one machine.
var programFile = "/tmp/.drover/drover"

// joined begins a container. Its arguments are parts of one script, as SageMaker takes none with more than 256 letters; in them a letter stands for
// the ends of lines, which SageMaker does not take either.
func joined(lineEnd string) []string {
	return []string{"/bin/sh", "-c", `eval "$(printf %s "$@" | tr "$0" "\n")"`, lineEnd}
}

// lineEnds are letters that may stand for the ends of lines: tr takes each for itself.
const lineEnds = "~^@%#+=_:,.!;?&|<>()*{}\x01"

// request is the request for a placement's jobs, without a name; that of a processing job is made of it.
func (c *client) request(ctx context.Context, s remote.Submission, o options, k kind) (in createTrainingJob, err error) {
	n := s.Request.Needs
	spot := isSpot(n, k)
	m, err := machineOf(n, c.region, spot, s.Handle.Placement)
	if err != nil {
		return in, err
	}
	if o.role == "" {
		if o.role, err = c.findRole(ctx, n.Labels["project"], s.Request.Run.Store); err != nil {
			return in, err
		}
	}
	if o.role == "" {
		return in, fault.New(fault.Denied, "Have one made: `drover target up sagemaker`; or name one: `--target-arg role=arn:aws:iam::ACCOUNT:role/NAME`.", "start agents: the project has no role for training jobs")
	}
	variables, exports, err := variables(s.Request.Run.Env, m, spot, k.mostVariable)
	if err != nil {
		return in, err
	}
	script, err := s.StartScript(ctx, "linux/amd64", programFile, exports)
	if err != nil {
		return in, err
	}
	entry, parts, err := split(script)
	if err != nil {
		return in, err
	}
	if len(s.Secrets) > 0 {
		variables[variableSecret] = secretName(s.Handle)
	}
	in = createTrainingJob{
		AlgorithmSpecification: algorithm{TrainingImage: n.Place.Image, TrainingInputMode: "File", ContainerEntrypoint: entry, ContainerArguments: parts},
		RoleArn:                o.role, OutputDataConfig: outputConfig{outputOf(o, s.Request.Run.Store)},
		ResourceConfig:    resources{InstanceType: m.name, InstanceCount: 1, VolumeSizeInGB: diskOf(n), KeepAlivePeriodInSeconds: int(n.Keep / time.Second)},
		StoppingCondition: stoppingCondition{MaxRuntimeInSeconds: int(timeLimit(n.Time, k) / time.Second)},
		Environment:       variables, HyperParameters: hyperparameters(n.Console), Tags: tags(n.Labels),
	}
	in.AlgorithmSpecification.MetricDefinitions, _ = metrics(n.Console)
	in.AlgorithmSpecification.EnableSageMakerMetricsTimeSeries = len(in.AlgorithmSpecification.MetricDefinitions) > 0
	if spot {
		in.EnableManagedSpotTraining = true
		in.StoppingCondition.MaxWaitTimeInSeconds = in.StoppingCondition.MaxRuntimeInSeconds + int(o.wait/time.Second)
	}
	return in, nil
}

// split cuts a script into what begins a container, and its arguments.
func split(script string) (entry, parts []string, err error) {
	i := strings.IndexFunc(lineEnds, func(c rune) bool { return !strings.ContainsRune(script, c) })
	if i < 0 {
		return nil, nil, fault.New(fault.Bug, "", "start agents: the script that begins a container has every letter")
	}
	entry = joined(lineEnds[i : i+1])
	script = strings.ReplaceAll(script, "\n", lineEnds[i:i+1])
	for part := range slices.Chunk([]rune(script), mostArgument) {
		parts = append(parts, string(part))
	}
	if len(parts) > mostArguments {
		return nil, nil, fault.New(fault.Invalid, "Give long variables in a file, as an input: `-i FILE`.", "start agents: the script that begins a container has %d letters, and SageMaker takes %d", len([]rune(script)), mostArgument*mostArguments)
	}
	return entry, parts, nil
}

// variables are a container's: the job's, and what adopt reads. Those of more than so many letters are exported by the script.
func variables(env []string, m machine, spot bool, most int) (all map[string]string, exports string, err error) {
	all = map[string]string{variableGPUs: strconv.Itoa(m.gpus)}
	if spot {
		all[variableSpot] = "1"
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if len([]rune(value)) > most {
			exports += "export " + name + "=" + store.Quote(value) + "\n"
			continue
		}
		all[name] = value
	}
	if len(all) >= mostVariables {
		return nil, "", fault.New(fault.Invalid, "Give fewer: `--env`.", "start agents: there are %d variables, and SageMaker takes %d", len(all), mostVariables)
	}
	return all, exports, nil
}

// outputOf is where SageMaker puts what a container leaves in /opt/ml/model: agents leave nothing there that they have stored.
func outputOf(o options, at string) string {
	if o.output != "" {
		return o.output
	}
	at, _, _ = strings.Cut(at, "?")
	return strings.TrimSuffix(at, "/") + "/" + outputFolder
}

// outputFolder is the part of a store below which SageMaker writes by itself. No project has such a name.
const outputFolder = "_sagemaker"

// diskOf is the size of a machine's disk, in GB.
func diskOf(n driver.Needs) int {
	if n.Disk > 0 {
		return int((n.Disk + 1<<30 - 1) >> 30)
	}
	return usualDisk
}

// timeLimit is how long SageMaker lets a job run.
func timeLimit(program time.Duration, k kind) time.Duration {
	if program == 0 {
		return longTime
	}
	return min(program+saveTime, k.mostLife)
}

// tags are labels as tags of AWS, which take few letters. The job's own names are told from those that users give.
func tags(labels map[string]string) []tag {
	all := []tag{{stack.TagManaged, stack.ManagedBy}}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key := amazon.TagText(name, 121)
		if name == "project" || name == "task" || name == "job" || strings.HasPrefix(strings.ToLower(key), "aws:") {
			key = "drover-" + key
		}
		if len(all) < mostTags && key != stack.TagManaged {
			all = append(all, tag{key, amazon.TagText(labels[name], 256)})
		}
	}
	return all
}

// hyperparameters are those that the console shows: SageMaker takes some of them, and of what is too long the beginning.
func hyperparameters(c driver.Console) map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Hyperparameters)) {
		if name != "" && len([]rune(name)) <= mostHyperparameterName && len(all) < mostHyperparameters && !strings.ContainsAny(name, "\r\n") {
			value := []rune(strings.NewReplacer("\r", " ", "\n", " ").Replace(c.Hyperparameters[name]))
			all[name] = string(value[:min(len(value), mostHyperparameter)])
		}
	}
	return all
}

// metrics are those that SageMaker reads too: each has a name of its own and an expression for one number. left are the others.
func metrics(c driver.Console) (all []metricDefinition, left []string) {
	for _, m := range c.Metrics {
		re, err := regexp.Compile(m.Regex)
		takes := m.Name != "" && err == nil && re.NumSubexp() == 1 && len([]rune(m.Name)) <= mostMetricName && len([]rune(m.Regex)) <= mostMetricRegex
		switch {
		case takes && len(all) < mostMetrics:
			all = append(all, metricDefinition{m.Name, m.Regex})
		default:
			left = append(left, cmp.Or(m.Name, m.Regex))
		}
	}
	return all, left
}
