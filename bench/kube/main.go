// Package main times drover on Kubernetes beside bare Jobs of the same image, in turn and on one cluster,
// and says whether drover's claims hold there: exit status 0 if all do, 1 if one does not, 2 if
// something could not be measured. make bench-kube starts a cluster for it. It refuses to know how
// drover works: it sees commands, and what kubectl tells of pods.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// typed to a container that runs, beside a bare Job of an image that the node has: an init
	// container takes up to a second more, as a kubelet looks once a second for one that has ended
	maxStartImage = 2 * time.Second
	maxStartParts = 4500 * time.Millisecond // without an image of the agent: the program is compressed and sent first
	maxItem       = 0.03                    // what an item takes, beside a pod for each item
	items         = 2000                    // of the map
	pods          = 200                     // of the Indexed Job beside it, one for each item: 2,000 would take half an hour
	agents        = 4                       // and pods at a time
)

// limit is far above what one command takes.
const limit = 10 * time.Minute

// bench is where commands run.
type bench struct {
	drover, kubectl, namespace, image, agentImage string
	dir                                           string
	out                                           io.Writer
	broken                                        int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := bench{out: os.Stdout}
	flag.StringVar(&b.drover, "drover", "bin/drover", "the program to measure")
	flag.StringVar(&b.kubectl, "kubectl", "", "kubectl, with the context and the rights to make Jobs")
	flag.StringVar(&b.namespace, "namespace", "", "a namespace of the bench's own: it removes all Jobs there")
	flag.StringVar(&b.image, "image", "", "an image with a shell that nodes have")
	flag.StringVar(&b.agentImage, "agent-image", "", "an image of the agent that nodes have")
	rounds := flag.Int("rounds", 5, "how often each start is measured, after one for nothing")
	flag.Parse()
	if b.kubectl == "" || b.namespace == "" || b.image == "" || b.agentImage == "" || *rounds < 1 {
		fmt.Fprintln(os.Stderr, "bench: say -kubectl, -namespace, -image and -agent-image, as make bench-kube does; the bench removes all Jobs of the namespace")
		os.Exit(2)
	}
	if err := b.measure(ctx, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	os.Exit(min(b.broken, 1))
}

func (b *bench) measure(ctx context.Context, rounds int) (err error) {
	if b.drover, err = filepath.Abs(b.drover); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "drover-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	load, _ := os.ReadFile("/proc/loadavg") // for the reader; a machine without it has none
	fmt.Fprintf(b.out, "%d rounds after one for nothing, in turn; load %s\n", rounds, strings.TrimSpace(string(load)))
	if err := b.measureStarts(ctx, rounds); err != nil {
		return err
	}
	return b.measureItems(ctx)
}

// measureStarts times from typed to a container that runs.
func (b *bench) measureStarts(ctx context.Context, rounds int) error {
	run := []string{b.drover, "run", "--on", "kube/" + b.namespace, "--image", b.image, "--cpus", "0.5", "--memory", "256M"}
	commands := []struct {
		name  string
		argv  []string
		stdin string
	}{
		{"a bare Job", []string{b.kubectl, "--namespace", b.namespace, "create", "-f", "-"}, b.job("bare", 1, 1, "sleep 3")},
		{"drover run, image of the agent", append(slices.Clone(run), "--target-arg", "agent-image="+b.agentImage, "sh", "-c", "sleep 3"), ""},
		{"drover run, program sent in parts", append(slices.Clone(run), "sh", "-c", "sleep 3"), ""},
	}
	times := make([][]time.Duration, len(commands))
	for round := range rounds + 1 {
		for i, c := range commands {
			took, err := b.untilRunning(ctx, append(slices.Clone(c.argv), again(c.argv, round)...), c.stdin)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				times[i] = append(times[i], took)
			}
		}
	}
	fmt.Fprintf(b.out, "\nkube-start: from typed to a container that runs\n")
	for i, c := range commands {
		fmt.Fprintf(b.out, "  %-34s median %6.2f s  min %6.2f s  ratio %.2f\n", c.name, median(times[i]).Seconds(), slices.Min(times[i]).Seconds(), ratio(times[i], times[0]))
	}
	later := func(i int) float64 { return (median(times[i]) - median(times[0])).Seconds() }
	b.judge(fmt.Sprintf("with an image of the agent at most %s after a bare Job", maxStartImage), later(1), maxStartImage.Seconds())
	b.judge(fmt.Sprintf("without one at most %s after it", maxStartParts), later(2), maxStartParts.Seconds())
	return nil
}

// again makes a command one that drover has not run.
func again(argv []string, round int) []string {
	if argv[1] != "run" {
		return nil
	}
	return []string{fmt.Sprint(round)}
}

// untilRunning runs a command, and gives the time until a container of a pod runs that was not there
// before. It then clears the namespace.
func (b *bench) untilRunning(ctx context.Context, argv []string, stdin string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watched, end := context.WithCancel(ctx)
	defer end()
	watch := exec.CommandContext(watched, b.kubectl, "--namespace", b.namespace, "get", "pods", "--watch", "--output", `jsonpath={.metadata.name} {.status.containerStatuses[0].state.running.startedAt}{"\n"}`)
	lines, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		return 0, err
	}
	running := make(chan time.Time, 1)
	go func() {
		for s := bufio.NewScanner(lines); s.Scan(); {
			if len(strings.Fields(s.Text())) == 2 {
				running <- time.Now()
				return
			}
		}
	}()
	select { // the watch has begun
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	begun := time.Now()
	cmd, said := b.command(ctx, argv, stdin)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case at := <-running:
		took = at.Sub(begun)
	case <-ctx.Done():
		err = fmt.Errorf("no container runs")
	}
	end()
	_ = watch.Wait() // it was ended
	if no := cmd.Wait(); err == nil && no != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), no, said.Bytes())
	}
	if err == nil {
		err = b.clear(ctx)
	}
	return took, err
}

// clear waits until the bare Jobs have ended, and takes all Jobs away.
func (b *bench) clear(ctx context.Context) error {
	if err := b.kubectlRun(ctx, "wait", "jobs", "--for=condition=complete", "-l", "bench=bare", "--timeout=9m"); err != nil && !strings.Contains(err.Error(), "no matching resources") {
		return err
	}
	return b.kubectlRun(ctx, "delete", "jobs", "--all", "--cascade=foreground", "--timeout=2m")
}

// measureItems times a map beside a pod for each item.
func (b *bench) measureItems(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	line := []string{b.drover, "map", "--on", "kube/" + b.namespace, "--image", b.image, "--cpus", "0.4", "--memory", "256M", "--workers", fmt.Sprint(agents), "--slots", "1",
		"--target-arg", "agent-image=" + b.agentImage, "--from", fmt.Sprintf("1-%d", items), "--", "usleep", "10000"}
	begun := time.Now()
	cmd, said := b.command(ctx, line, "")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, said.Bytes())
	}
	ours := time.Since(begun)
	if err := b.clear(ctx); err != nil {
		return err
	}
	begun = time.Now()
	cmd, said = b.command(ctx, []string{b.kubectl, "--namespace", b.namespace, "create", "-f", "-"}, b.job("pods", pods, agents, "usleep 10000"))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make a Job: %w: %s", err, said.Bytes())
	}
	if err := b.kubectlRun(ctx, "wait", "job/pods", "--for=condition=complete", "--timeout=9m"); err != nil {
		return err
	}
	peer := time.Since(begun)
	each := func(d time.Duration, n int) time.Duration { return d / time.Duration(n) }
	fmt.Fprintf(b.out, "\nkube-items: items of 10 ms, by %d at a time\n", agents)
	fmt.Fprintf(b.out, "  drover map         %5d items in %7.1f s, %8.2f ms each\n", items, ours.Seconds(), each(ours, items).Seconds()*1000)
	fmt.Fprintf(b.out, "  an Indexed Job     %5d items in %7.1f s, %8.2f ms each\n", pods, peer.Seconds(), each(peer, pods).Seconds()*1000)
	b.judge(fmt.Sprintf("an item takes at most %.2f of a pod for each item", maxItem), float64(each(ours, items))/float64(each(peer, pods)), maxItem)
	return b.clear(ctx)
}

// job is a bare Job of the image.
func (b *bench) job(name string, completions, parallelism int, shell string) string {
	return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q,"labels":{"bench":"bare"}},"spec":{"completions":%d,"parallelism":%d,"completionMode":"Indexed",
"template":{"spec":{"restartPolicy":"Never","automountServiceAccountToken":false,
"securityContext":{"runAsNonRoot":true,"runAsUser":10001,"seccompProfile":{"type":"RuntimeDefault"}},
"containers":[{"name":"main","image":%q,"imagePullPolicy":"IfNotPresent","command":["sh","-c",%q],
"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},
"resources":{"requests":{"cpu":"500m","memory":"256Mi"},"limits":{"cpu":"500m","memory":"256Mi"}}}]}}}}`, name, completions, parallelism, b.image, shell)
}

func (b *bench) command(ctx context.Context, argv []string, stdin string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.dir, strings.NewReader(stdin), &said, &said
	cmd.Env = append(os.Environ(), "HOME="+b.dir)
	return cmd, &said
}

func (b *bench) kubectlRun(ctx context.Context, args ...string) error {
	cmd, said := b.command(ctx, append([]string{b.kubectl, "--namespace", b.namespace}, args...), "")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return nil
}

// judge prints whether a claim holds.
func (b *bench) judge(claim string, got, most float64) {
	verdict := "holds"
	if got > most {
		verdict = "DOES NOT HOLD"
		b.broken++
	}
	fmt.Fprintf(b.out, "  claim: %s: %.3f: %s\n", claim, got, verdict)
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func ratio(ours, peer []time.Duration) float64 { return float64(median(ours)) / float64(median(peer)) }
