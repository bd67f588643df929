package drover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// train is a script that works on its own, and knows nothing of drover.
const train = `#!/bin/sh
echo "training with $*"
echo weights >"${SM_MODEL_DIR:-.}/model.txt"
echo notes >notes.txt
`

// A script is run, and what it made comes back.
func Example() {
	c, folder, done := open(map[string]string{"train.sh": train})
	defer done()
	ctx := context.Background()

	j, err := c.Run(ctx, job.Spec{Project: "demo", Task: "train", Program: "train.sh", Args: []string{"--epochs", "3"}, On: "mem"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := j.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Task, s.State, *s.Code)

	if _, err := j.Get(ctx, filepath.Join(folder, "out"), drover.GetOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"model/model.txt", "files/notes.txt", "logs/logs0"} {
		b, err := os.ReadFile(filepath.Join(folder, "out", name))
		fmt.Printf("%s: %s %v\n", name, strings.TrimSpace(string(b)), err)
	}
	// Output:
	// train SUCCEEDED 0
	// model/model.txt: weights <nil>
	// files/notes.txt: notes <nil>
	// logs/logs0: training with --epochs 3 <nil>
}

// Two tasks as simple-sagemaker's users chain them: the second reads the model of the
// first, needs its last job to be completed, and finds its hyperparameters as text.
func ExampleClient_Run_ssm() {
	c, folder, done := open(map[string]string{"train.sh": train, "test.sh": "#!/bin/sh\ntar -xzOf $SM_CHANNEL_TRAINED/model.tar.gz model.txt\necho got $*\n"})
	defer done()
	ctx := context.Background()

	first := job.Spec{Project: "ssm-ex", Task: "ex3-1", Named: true, Rules: job.SSM, Program: "train.sh", On: "mem"}
	second := job.Spec{Project: "ssm-ex", Task: "ex3-2", Named: true, Rules: job.SSM, Program: "test.sh", On: "mem",
		Args: []string{"--task_type", "2"}, Hyperparameters: map[string]string{"task_type": "2"},
		Inputs: []job.Input{{Name: "trained", Path: "task:ex3-1/model"}}}
	var last *drover.Job
	for _, spec := range []job.Spec{first, second} {
		j, err := c.Run(ctx, spec)
		if err != nil {
			fmt.Println(err)
			return
		}
		s, err := j.Wait(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.Task, s.State)
		last = j
	}
	got, err := last.Get(ctx, filepath.Join(folder, "out"), drover.GetOptions{Parts: []string{"logs"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := os.ReadFile(filepath.Join(folder, "out", "logs", "logs0"))
	fmt.Print(len(got.Parts), " ", string(b))
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// ex3-1 SUCCEEDED
	// ex3-2 SUCCEEDED
	// 1 weights
	// got --task_type 2
}

// A named task that is complete is not run again while nothing has changed.
func ExampleClient_Plan() {
	c, folder, done := open(map[string]string{"train.sh": train})
	defer done()
	ctx := context.Background()
	spec := job.Spec{Project: "demo", Task: "train", Named: true, Program: "train.sh", On: "mem"}

	run := func() {
		p, err := c.Plan(ctx, spec, drover.PlanOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Action, p.Changed)
		j, err := p.Submit(ctx)
		if err == nil {
			_, err = j.Wait(ctx)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	run()
	run()
	if err := os.WriteFile(filepath.Join(folder, "train.sh"), []byte(train+"echo more\n"), 0o755); err != nil {
		fmt.Println(err)
	}
	run()
	// Output:
	// start []
	// skip []
	// start [code]
}

// Output is followed while the program runs.
func ExampleJob_Logs() {
	c, _, done := open(map[string]string{"count.sh": "#!/bin/sh\necho one\necho two\n"})
	defer done()
	ctx := context.Background()

	j, err := c.Run(ctx, job.Spec{Project: "demo", Task: "count", Program: "count.sh", On: "mem"})
	if err != nil {
		fmt.Println(err)
		return
	}
	waited := make(chan error)
	go func() { _, err := j.Wait(ctx); waited <- err }()
	for line, err := range j.Lines(ctx, drover.LogOptions{Follow: true}) {
		fmt.Println(line.Stream, line.Text, err)
	}
	fmt.Println(<-waited)
	// Output:
	// stdout one <nil>
	// stdout two <nil>
	// <nil>
}

// What happened is told in order, also while it happens.
func ExampleJob_Watch() {
	c, _, done := open(map[string]string{"fail.sh": "#!/bin/sh\nexit 3\n"})
	defer done()
	ctx := context.Background()

	j, err := c.Run(ctx, job.Spec{Project: "demo", Task: "fail", Program: "fail.sh", On: "mem"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := j.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	for e, err := range j.Watch(ctx) {
		if err != nil || e.Kind == "agent" || e.Kind == "submitted" || e.Kind == "joined" {
			continue
		}
		fmt.Println(e.Kind+":", e.Text)
	}
	// Output:
	// placed: asked mem for 1 agent
	// attempt: attempt 1 began
	// exit: node 0: failed, exit status 3
	// settled: FAILED: exit status 3
}

// A job is stopped for good; its program gets SIGTERM first.
func ExampleJob_Stop() {
	c, _, done := open(map[string]string{"long.sh": "#!/bin/sh\ntrap 'echo saved; exit 0' TERM\necho up\nwhile :; do sleep 0.05; done\n"})
	defer done()
	ctx := context.Background()

	j, err := c.Run(ctx, job.Spec{Project: "demo", Task: "long", Program: "long.sh", On: "mem", Grace: job.Duration(10 * time.Second)})
	if err != nil {
		fmt.Println(err)
		return
	}
	waited := make(chan drover.Status)
	go func() {
		s, err := j.Wait(ctx)
		if err != nil {
			fmt.Println(err)
		}
		waited <- s
	}()
	for line := range j.Lines(ctx, drover.LogOptions{Follow: true, Stdout: true}) {
		fmt.Println(line.Text)
		if line.Text == "up" {
			stands, err := j.Stop(ctx, "seen enough")
			fmt.Println(stands, err)
		}
	}
	s := <-waited
	fmt.Println(s.State, s.Reason)
	// Output:
	// up
	// true <nil>
	// saved
	// CANCELLED seen enough
}
