package drover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// square is a program that knows nothing of drover: an item is its argument.
const square = `#!/bin/sh
case $1 in *[!0-9]*) echo "$1 is not a number" >&2; exit 2;; esac
echo $(($1 * $1))
`

// A program is run for each of a list of values, and what each came to is recorded
// once.
func ExampleClient_Map() {
	c, _, done := open(map[string]string{"square.sh": square})
	defer done()
	ctx := context.Background()

	j, err := c.Map(ctx, drover.MapSpec{
		Spec:   job.Spec{Project: "demo", Task: "squares", Program: "./square.sh", Args: []string{"{}"}, On: "mem", Items: job.Items{Slots: 2}},
		Values: []string{"3", "4", "five"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := j.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	for r, err := range j.Results(ctx, drover.ResultOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %s %s %q %q\n", r.Item, r.Value, r.State, r.Stdout, r.Reason)
	}
	// Output:
	// 1 3 SUCCEEDED "9\n" ""
	// 2 4 SUCCEEDED "16\n" ""
	// 3 five FAILED "" "five is not a number"
}

// How a map stands is given whenever that has changed, until it has ended.
func ExampleJob_Statuses() {
	c, _, done := open(map[string]string{"square.sh": square})
	defer done()
	ctx := context.Background()

	j, err := c.Map(ctx, drover.MapSpec{Spec: job.Spec{Project: "demo", Task: "squares", Program: "./square.sh", Args: []string{"{}"}, On: "mem",
		Items: job.Items{From: "1-20"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	waited := make(chan error)
	go func() {
		_, err := j.Wait(ctx)
		waited <- err
	}()
	var last drover.Status
	for s, err := range j.Statuses(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		last = s // of 20 items s.Items.Succeeded are done, and s.Running run
	}
	fmt.Println(<-waited, last.State, last.Items)
	// Output:
	// <nil> SUCCEEDED 20 items: 20 succeeded
}

// A map's results are found again by its name, from any program, and outputs that
// its items declared come into a folder.
func ExampleJob_Results() {
	c, folder, done := open(map[string]string{"upper.sh": "#!/bin/sh\ntr a-z A-Z <\"$1\" >\"$2\"\n", "a.txt": "apple\n", "b.txt": "pear\n"})
	defer done()
	ctx := context.Background()

	j, err := c.Map(ctx, drover.MapSpec{Spec: job.Spec{Project: "demo", Task: "upper", Program: "./upper.sh", Args: []string{"{}", "{out}"}, On: "mem",
		Items: job.Items{From: "*.txt", Out: []string{"{.stem}.upper"}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := j.Wait(ctx); err != nil {
		fmt.Println(err)
	}

	again, err := c.Find(ctx, "upper", "demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range again.Results(ctx, drover.ResultOptions{States: []job.ItemState{job.ItemSucceeded}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(filepath.Base(r.Value), r.Outputs[0].Name, r.Outputs[0].Bytes)
	}
	got, err := again.Get(ctx, filepath.Join(folder, "out"), drover.GetOptions{})
	if err != nil {
		fmt.Println(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "out", "b.upper"))
	fmt.Printf("%d files, %q %v\n", got.Items.Files, text, err)
	// Output:
	// a.txt a.upper 6
	// b.txt b.upper 5
	// 2 files, "PEAR\n" <nil>
}

// A spec is plain data: it may be kept in a file, and what drover map takes as a
// job file is such a one when it is written as JSON.
func ExampleClient_Map_file() {
	c, folder, done := open(map[string]string{"square.sh": square, "numbers.txt": "7\n8\n", "job.yaml": `{
		"verb": "map", "project": "demo", "task": "squares", "on": "mem",
		"program": "./square.sh", "args": ["{}"], "from": "numbers.txt", "item_timeout": "1m"}`})
	defer done()
	ctx := context.Background()

	text, err := os.ReadFile(filepath.Join(folder, "job.yaml"))
	if err != nil {
		fmt.Println(err)
		return
	}
	var m drover.MapSpec
	if err := json.Unmarshal(text, &m.Spec); err != nil {
		fmt.Println(err)
		return
	}
	j, err := c.Map(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := j.Wait(ctx)
	if err != nil {
		fmt.Println(err)
	}
	r, err := j.Item(ctx, 2)
	fmt.Println(s.State, r.Value, strings.TrimSpace(r.Stdout), len(r.Tries), err)
	// Output:
	// SUCCEEDED 8 64 1 <nil>
}
