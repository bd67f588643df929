package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/bench/bucket"
)

const (
	maxRequests   = 40 // of a script of less than 5 s
	requestsClaim = "a script of under 5 s costs at most 40 requests, the agent's among them"
	minutes       = 65 * time.Second // of a job with counted minutes
)

var requestSections = []section{{name: "store-requests", trial: requestsOfAJob}}

// requestsOfAJob counts what commands ask of a bucket, and times them beside the same
// in a folder. The server is in memory, so the difference is requests and their order,
// and no network.
func requestsOfAJob(ctx context.Context, h *hall) (string, []string, error) {
	b, stop := bucket.ServeMemory()
	defer stop()
	far := *h.place
	far.work = filepath.Join(h.dir, "here")
	far.env = slices.Concat(h.env, []string{"DROVER_STORE=s3://bench/jobs", "AWS_ENDPOINT_URL=" + b.URL, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=testtest", "AWS_EC2_METADATA_DISABLED=true"})
	near := far
	near.env = append(slices.Clone(h.env), "DROVER_STORE="+filepath.Join(h.dir, "stores", "near"))
	for name, text := range map[string]string{"hello.py": "print('hello', flush=True)\n", "long.py": fmt.Sprintf("import time\nprint('hello', flush=True)\ntime.sleep(%d)\n", minutes/time.Second)} {
		if err := os.WriteFile(filepath.Join(far.work, name), []byte(text), 0o600); err != nil {
			return "", nil, err
		}
	}
	defer os.Remove(filepath.Join(far.work, "hello.py"))
	defer os.Remove(filepath.Join(far.work, "long.py"))
	return measureCopies(ctx, b, h, &far, &near)
}

func measureCopies(ctx context.Context, b *bucket.Memory, h *hall, far, near *place) (string, []string, error) {
	hello := func(n int) command {
		return command{[]string{far.drover, "run", "-t", fmt.Sprintf("hello%d", n), far.python, "hello.py"}, "drover run python3 hello.py"}
	}
	var first, most int64
	var there, here times
	for n := range h.options.rounds + 1 {
		d, asked, err := commandCost(ctx, b, far, hello(n))
		if err != nil {
			return "", nil, err
		}
		l, err := clock(ctx, near, hello(n), untilExit)
		if err != nil {
			return "", nil, err
		}
		if n == 0 { // it tries the store out
			first = asked
			continue
		}
		there, here, most = append(there, d), append(here, l), max(most, asked)
	}
	_, long, err := commandCost(ctx, b, far, command{[]string{far.drover, "run", "-t", "long", far.python, "long.py"}, "drover run python3 long.py"})
	if err != nil {
		return "", nil, err
	}
	_, items, err := commandCost(ctx, b, far, command{[]string{"sh", "-c", `"$0" map -q -t items --from 1-1000 -- echo {} && echo done`, far.drover}, "drover map --from 1-1000 -- echo {}"})
	if err != nil {
		return "", nil, err
	}
	return requestsReport(first, most, long, items, there, here)
}

// commandCost is clock, and the requests meanwhile.
func commandCost(ctx context.Context, b *bucket.Memory, p *place, cmd command) (time.Duration, int64, error) {
	before := b.Asked.Load()
	d, err := longClock(ctx, p, cmd)
	return d, b.Asked.Load() - before, err
}

// longClock is clock for a command that may take longer than a section's usual ones.
func longClock(ctx context.Context, p *place, cmd command) (time.Duration, error) {
	began := time.Now()
	_, err := clockWithin(ctx, p, cmd, untilExit, 3*time.Minute)
	return time.Since(began), err
}

func requestsReport(first, most, long, items int64, there, here times) (string, []string, error) {
	if most == 0 || first == 0 {
		return "", nil, errors.New("count requests: the bucket was asked nothing")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to run a script whose store is a bucket in memory\n")
	fmt.Fprintf(&b, "  drover run hello.py              %5d requests, at most; %d as the first command of a day, which tries the store\n", most, first)
	fmt.Fprintf(&b, "  each minute more                 %5d\n", (long-most)*int64(time.Minute)/int64(minutes))
	fmt.Fprintf(&b, "  drover map --from 1-1000         %5d\n", items)
	fmt.Fprintf(&b, "  wall time                        median %s, in a folder %s: %s more\n", millis(there.medianTime()), millis(here.medianTime()), millis(there.medianTime()-here.medianTime()))
	verdict, broken := "holds", []string(nil)
	if top := max(first, most); top > maxRequests {
		verdict, broken = "DOES NOT HOLD", []string{fmt.Sprintf("the claim %q does not hold: %d", requestsClaim, top)}
	}
	fmt.Fprintf(&b, "  claim: %s: %s\n", requestsClaim, verdict)
	return b.String(), broken, nil
}
