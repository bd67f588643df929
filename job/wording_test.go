package job_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// refused is what a user reads of a spec that Normal refuses: the whole text, and the
// whole hint.
type refused struct {
	name       string
	change     func(*job.Spec)
	text, hint string
}

func checkRefused(t *testing.T, base func() job.Spec, rows []refused) {
	t.Helper()
	for _, row := range rows {
		s := base()
		row.change(&s)
		_, err := s.Normal()
		if err == nil {
			t.Errorf("%s: it is taken", row.name)
			continue
		}
		if err.Error() != row.text || fault.Hint(err) != row.hint || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: kind %v:\n%s\n%s\nwant\n%s\n%s", row.name, fault.KindOf(err), err, fault.Hint(err), row.text, row.hint)
		}
	}
}

func TestRefusedLimitsSayWhatToType(t *testing.T) {
	checkRefused(t, small, []refused{
		{"memory below zero", func(s *job.Spec) { s.Memory = -1 }, "check job: a limit below zero", "Use a size such as 512M."},
		{"disk below zero", func(s *job.Spec) { s.Disk = -1 }, "check job: a limit below zero", "Use a size such as 512M."},
		{"a disk limit without a unit", func(s *job.Spec) { s.Disk = 20 }, "check job: a disk limit of 20 bytes", "Write the unit: --disk 20G."},
		{"a core's thousandth", func(s *job.Spec) { s.CPUs = 0.001 }, "check job: 0.001 cores are less than a hundredth of one", "Use --cpus 0.1 or more."},
		{"too high a priority", func(s *job.Spec) { s.Priority = 1001 }, "check job: priority 1001", "Use --priority -1000 to 1000."},
		{"too low a priority", func(s *job.Spec) { s.Priority = -1001 }, "check job: priority -1001", "Use --priority -1000 to 1000."},
		{"more cores than the queue has", func(s *job.Spec) { s.Nodes, s.CPUs, s.Queue, s.Share = 2, 4, "night", job.Share{CPUs: 6} },
			"check job: queue night may use 6 cores in all, and this job asks for 8",
			"Ask for less, use another --queue, or raise targets.local.queues.night.cpus in the config."},
		{"more memory than the queue has", func(s *job.Spec) { s.Memory, s.Queue, s.Share = 4<<30, "night", job.Share{Memory: 3 << 30} },
			"check job: queue night may use 3 GB of memory in all, and this job asks for 4 GB",
			"Ask for less, use another --queue, or raise targets.local.queues.night.memory in the config."},
		{"more GPUs than the queue has", func(s *job.Spec) { s.Nodes, s.GPUs, s.Queue, s.Share = 2, 2, "night", job.Share{GPUs: 3} },
			"check job: queue night may use 3 GPUs in all, and this job asks for 4",
			"Ask for less, use another --queue, or raise targets.local.queues.night.gpus in the config."},
	})
}

func TestRefusedMapsSayWhatToType(t *testing.T) {
	base := func() job.Spec {
		s := small()
		s.Verb, s.From = job.Map, "1-3"
		return s
	}
	checkRefused(t, base, []refused{
		{"a launcher", func(s *job.Spec) { s.Launcher = job.MPI }, "check job: a map takes no launcher", "Use drover run --launcher mpi with a script or program."},
		{"a stream with standard input", func(s *job.Spec) { s.Stream, s.Stdin = true, true }, "check job: a stream program asks for its items over a socket", "Leave out --stdin and --shell."},
		{"a stream of a shell", func(s *job.Spec) { s.Stream, s.ByShell = true, true }, "check job: a stream program asks for its items over a socket", "Leave out --stdin and --shell."},
		{"a stream whose memory grows", func(s *job.Spec) { s.Stream, s.Retries, s.Memory, s.MemoryStep = true, 1, 1<<30, 2 },
			"check job: a stream program keeps the memory it was started with", "Leave --memory-step out, and give --memory what the largest item needs."},
		{"failures that are tried again never", func(s *job.Spec) { s.RetryOn = job.RetryOn{"75"} }, "check job: --retry-on and --memory-step have no effect without --retries", "Say how often: --retries 3."},
		{"memory that never grows", func(s *job.Spec) { s.Memory, s.MemoryStep = 1<<30, 2 }, "check job: --retry-on and --memory-step have no effect without --retries", "Say how often: --retries 3."},
		{"nodes", func(s *job.Spec) { s.Nodes = 2 }, "check job: a map has workers, not nodes", "Use --workers for more agents."},
		{"an unknown format", func(s *job.Spec) { s.Format = "xml" }, `check job: unknown format "xml"`, "Use lines, csv or jsonl."},
		{"too many slots", func(s *job.Spec) { s.Slots = 10001 }, "check job: 10001 items at once", "Use -j 1 to 10000."},
		{"a part of an item", func(s *job.Spec) { s.MaxFails = "1.5" }, `check job: at most "1.5" items may fail`, "Use a number such as 10, or percent such as 5%."},
		{"an output elsewhere", func(s *job.Spec) { s.Out = []string{"../x"} }, `check job: output "../x" is not a name below the folder for outputs`, "Use a name such as thumbs/{.stem}.png."},
		{"items without a map", func(s *job.Spec) { s.Verb = job.Run }, "check job: items are for maps, not for run", "Use verb: map."},
		{"an entrypoint", func(s *job.Spec) { s.Entrypoint = []string{"bash"} },
			"check job: only processing jobs have an entrypoint", "Use verb: process, or begin the command with these words."},
	})
}

func TestRefusedMetricsAndTagsSayWhatToType(t *testing.T) {
	metrics := make([]job.Metric, 101)
	tags := map[string]string{}
	for i := range 51 {
		tags[fmt.Sprint("t", i)] = "x"
	}
	brackets := "Put the number into brackets: --metric 'loss=loss: ([0-9.]+)'."
	checkRefused(t, small, []refused{
		{"too many metrics", func(s *job.Spec) { s.Metrics = metrics }, "check job: 101 metrics, at most 100", "One expression may hold several named groups."},
		{"a metric that is no expression", func(s *job.Spec) { s.Metrics = []job.Metric{{Name: "loss", Regex: "("}} },
			"check job: metric \"loss\": \"(\" is not a regular expression: error parsing regexp: missing closing ): `(`", brackets},
		{"a metric without a group", func(s *job.Spec) { s.Metrics = []job.Metric{{Name: "loss", Regex: "loss"}} },
			`check job: metric "loss": "loss" has no group`, brackets},
		{"a preset that is misspelt", func(s *job.Spec) { s.Metrics = []job.Metric{{Regex: "keas"}} },
			`check job: metric "": "keas" has no group`, "Did you mean --metric keras?"},
		{"a metric's name with a comma", func(s *job.Spec) { s.Metrics = []job.Metric{{Name: "a,b", Regex: "(.)"}} },
			`check job: "a,b" is not a valid metric name`, "Use letters, digits and _ - . / : up to 100."},
		{"a metric without a name", func(s *job.Spec) { s.Metrics = []job.Metric{{Regex: "loss=(.)"}} }, `check job: the metric of "loss=(.)" has no name`, "Write it as --metric NAME=REGEX, or name the groups: (?P<loss>[0-9.]+)."},
		{"a tag's name with a blank", func(s *job.Spec) { s.Tags = map[string]string{"a b": "x"} }, `check job: "a b" is not a valid tag name`, "Write it as --tag team=vision."},
		{"too many tags", func(s *job.Spec) { s.Tags = tags }, "check job: 51 tags, at most 50", ""},
		{"a tag of two lines", func(s *job.Spec) { s.Tags = map[string]string{"team": "a\nb"} },
			`check job: tag team: "a\nb" is not a value`, "Use up to 256 printable letters."},
	})
}

func TestRefusedContainersSayWhatToType(t *testing.T) {
	mounts := func(all ...string) func(*job.Spec) { return func(s *job.Spec) { s.Container.Mounts = all } }
	checkRefused(t, small, []refused{
		{"an image with a space", func(s *job.Spec) { s.Container.Image = "python 3" }, `check job: "python 3" is not a valid image reference`, "Use a reference such as python:3.12-slim."},
		{"an image like an option", func(s *job.Spec) { s.Container.Image = "-v" }, `check job: "-v" is not a valid image reference`, "Use a reference such as python:3.12-slim."},
		{"a long Dockerfile", func(s *job.Spec) { s.Container.Dockerfile = strings.Repeat("#", 1<<20+1) },
			"check job: a Dockerfile of 1048577 bytes, at most 1048576", "Put it into a file and name that."},
		{"a Dockerfile of bytes", func(s *job.Spec) { s.Container.Dockerfile = "FROM a\n\x00" }, "check job: the Dockerfile holds a NUL byte", ""},
		{"shared memory without a unit", func(s *job.Spec) { s.Container.Shm = 2 }, "check job: 2 bytes of shared memory", "Write the unit: --shm 1G."},
		{"a relative source", mounts("data:/data"), `check job: mount "data:/data": "data" is not absolute`, "Write the whole path."},
		{"two mounts at one place", mounts("/a:/data", "/b:/data:ro"), "check job: two mounts at /data", "Give each mount a folder of its own."},
		{"a mount without a target", mounts("/data"), `read mount: "/data" is not of the form SOURCE:TARGET`, "Write it as --mount /data:/data, or /data:/data:ro."},
		{"a mount in a relative folder", mounts("/data:data"), `read mount "/data:data": "data" is not a folder in a container`, "Write it as --mount /data:/data, or /data:/data:ro."},
		{"a mount over drover's folders", mounts("/data:/opt/ml/input"),
			`read mount "/data:/opt/ml/input": /opt/ml in a container is used by drover itself`, "Choose another folder, such as /data."},
	})
}

func TestRefusedSecretsSayWhatToType(t *testing.T) {
	how := "Write --secret TOKEN to take it from your environment, or --secret TOKEN=file:PATH; drover keeps the reference, never the value."
	for text, want := range map[string][2]string{
		"my token":         {"read --secret: the name is not a valid name of an environment variable", "Write it as --secret WANDB_API_KEY, with the value in the variable of that name."},
		"TOKEN=env:a b":    {"read --secret: TOKEN: after env: comes the name of an environment variable", how},
		"TOKEN=file:":      {"read --secret: TOKEN: after file: comes a path", how},
		"TOKEN=hunter2":    {"read --secret: TOKEN: it is neither env:NAME nor file:PATH", how},
		"TOKEN=file:~/key": {"read --secret: TOKEN: the path begins with ~", `Write "$HOME/..." for your home folder: the shell leaves ~ as it is behind file:.`},
	} {
		_, _, err := secret.Parse(text)
		if err == nil || err.Error() != want[0] || fault.Hint(err) != want[1] || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: kind %v, %v\n%s\nwant\n%s\n%s", text, fault.KindOf(err), err, fault.Hint(err), want[0], want[1])
		}
	}
	checkRefused(t, small, []refused{
		{"a relative file", func(s *job.Spec) { s.Secrets = map[string]string{"TOKEN": "file:key"} }, "check job: secret TOKEN: its path is not absolute", "Write the whole path, from / on."},
	})
	_, err := secret.Resolve(map[string]string{"TOKEN": "file:/key"}, nil, func(string) ([]byte, error) { return []byte("a\x00b"), nil })
	if err == nil || err.Error() != "read secret TOKEN: it holds a NUL byte, and an environment variable cannot" ||
		fault.Hint(err) != "Give the program the file's path instead, in an environment variable." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestASecretThatIsNotThereSaysWhereToPutIt(t *testing.T) {
	inFile := "Give the program the file's path instead, in an environment variable."
	for _, row := range []struct {
		value string
		err   error
		kind  fault.Kind
		want  [2]string
	}{
		{"\n", nil, fault.Missing, [2]string{"read secret TOKEN: /key is empty", "Write the secret into it."}},
		{"", fs.ErrNotExist, fault.Missing, [2]string{"read secret TOKEN: /key is not there", "Put it there, on the machine where the job runs, or name another file."}},
		{"", fs.ErrPermission, fault.Missing, [2]string{"read secret TOKEN: /key may not be read", "Let the user who runs the job read it: chmod u+r /key."}},
		{"", errors.New("it is a folder"), fault.Missing, [2]string{"read secret TOKEN: it is a folder", "Name a file that holds the secret and nothing else."}},
		{strings.Repeat("x", 64<<10+1), nil, fault.Invalid, [2]string{"read secret TOKEN: it has 65537 bytes, at most 65536", inFile}},
	} {
		_, err := secret.Resolve(map[string]string{"TOKEN": "file:/key"}, nil, func(string) ([]byte, error) { return []byte(row.value), row.err })
		if err == nil || err.Error() != row.want[0] || fault.Hint(err) != row.want[1] || fault.KindOf(err) != row.kind {
			t.Errorf("kind %v, %v\n%s\nwant\n%s\n%s", fault.KindOf(err), err, fault.Hint(err), row.want[0], row.want[1])
		}
	}
}

func TestTypedNamesAndSizesThatAreNoneSayHowTheyAreWritten(t *testing.T) {
	_, badRef := job.ParseRef("A/b")
	_, badSize := job.ParseBytes("2 apples")
	for _, row := range []struct {
		err        error
		text, hint string
	}{
		{badRef, `find job: "A/b" is not the name of a job`, "Name a job by its id, its task, task#3, project/task or last: drover status lists them."},
		{badSize, `"2 apples" is not a size`, "Write it as 512M, 1.5G or 2T."},
	} {
		if row.err == nil || row.err.Error() != row.text || fault.Hint(row.err) != row.hint || fault.KindOf(row.err) != fault.Invalid {
			t.Errorf("kind %v, %v\n%s\nwant\n%s\n%s", fault.KindOf(row.err), row.err, fault.Hint(row.err), row.text, row.hint)
		}
	}
}

func TestRulesFromNoDroverAreAMistakeOfOurs(t *testing.T) {
	s := small()
	s.Rules = "slurm"
	if _, err := s.Normal(); err == nil || err.Error() != `check job: unknown rules "slurm"` || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}
