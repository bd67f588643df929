// Package main times whole commands beside their peers, in one run and on one
// machine, and says whether drover's claims hold there: exit status 0 if all do,
// 1 if one does not, 2 if something could not be measured.
//
// Ours and the peer take turns, so that both meet the same load. It refuses to
// know how drover works: it sees commands, the time they take, and what they
// print. Its arithmetic and its clockwork are proved by main_test.go; that every
// section still runs, by TestRealEverySectionCanBeMeasured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-run/drover/bench/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; its answer is the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", ".", "measure the sections whose names match this `regexp`")
	rounds := flags.Int("rounds", 15, "how often each command runs, after one warm-up")
	drover := flags.String("drover", "bin/drover", "the program to measure")
	python := flags.String("python", "python3", "the interpreter to measure it beside")
	var maps mapOptions
	flags.IntVar(&maps.rounds, "map-rounds", 3, "how often each command of a map section runs, in turn with its peers, after a short warm-up")
	flags.IntVar(&maps.items, "items", 0, "at most so many items for a command of a map section, to see that it works (0: as many as the claims are meant for)")
	flags.IntVar(&maps.most, "most", 1_000_000, "the items of map-cost's longest job")
	flags.StringVar(&maps.peers, "peers", "bin/.peers", "the Python environment with the peers from a package index: make bench-peers")
	flags.StringVar(&maps.sources, "sources", "bench/peers/stream", "the folder with the peers in Go, which map-stream builds")
	flags.IntVar(&maps.agents, "agents", 200, "how many agents map-agents starts")
	flags.StringVar(&maps.s3, "s3", "", "versitygw, a real S3 server: map-agents measures over one, too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	chosen, err := choose(*pattern, min(*rounds, maps.rounds), flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	p, err := furnish(ctx, *drover, *python)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	p.maps = maps
	broken, err := measureAll(ctx, p, chosen, *rounds, stdout)
	if err := errors.Join(err, os.RemoveAll(p.dir)); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	for _, line := range broken {
		fmt.Fprintln(stderr, "bench:", line)
	}
	return min(len(broken), 1)
}

// choose finds the sections to measure, or says what is wrong with the command line.
func choose(pattern string, rounds int, rest []string) ([]section, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("read the command line: %q: bench takes flags only", rest[0])
	}
	if rounds < 1 {
		return nil, fmt.Errorf("read the command line: -rounds, -map-rounds: %d: at least one", rounds)
	}
	want, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("read the command line: -run: %w", err)
	}
	var chosen []section
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
		if want.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("read the command line: -run %q: matches none of %s", pattern, strings.Join(names, ", "))
	}
	return chosen, nil
}

// measureAll measures one section after the other and gives the claims that do not hold.
func measureAll(ctx context.Context, p *place, chosen []section, rounds int, out io.Writer) (broken []string, err error) {
	fmt.Fprintf(out, "%s/%s, %d cores, %s, %d rounds after one warm-up, ours and peer in turn\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load(), rounds)
	for _, s := range chosen {
		if _, err := exec.LookPath(s.needs); s.needs != "" && err != nil {
			fmt.Fprintf(out, "\n%s: not measured: %s is not on PATH\n", s.name, s.needs)
			continue
		}
		if s.trial != nil {
			found, err := tryOut(ctx, p, s, out)
			if err != nil {
				return broken, fmt.Errorf("measure %s: %w", s.name, err)
			}
			broken = append(broken, found...)
			continue
		}
		ours, peer, err := measure(ctx, p, s, rounds)
		if err != nil {
			return broken, fmt.Errorf("measure %s: %w", s.name, err)
		}
		fmt.Fprint(out, report(p, s, ours, peer))
		if !s.holds(ours, peer) {
			broken = append(broken, fmt.Sprintf("%s: the claim %q does not hold: ours %s, peer %s (medians)",
				s.name, s.claim, millis(ours.medianTime()), millis(peer.medianTime())))
		}
	}
	return broken, nil
}

// tryOut runs a section that measures by itself, in the hall, and gives the claims
// that do not hold.
func tryOut(ctx context.Context, p *place, s section, out io.Writer) (broken []string, err error) {
	if p.hall == nil {
		if p.hall, err = newHall(ctx, p); err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "\nmaps: below %s, on %s; %d rounds in turn; peers=%s\n", p.hall.dir, process.FileSystem(p.hall.dir), p.maps.rounds, p.hall.peers)
		if busy(load(), runtime.NumCPU()) {
			fmt.Fprintln(out, "others use this machine too: the ratios below say little, for a scheduler that shares it out by sessions gives drover, which has more of them, more than its peers")
		}
	}
	report, found, err := s.trial(ctx, p.hall)
	if err := errors.Join(err, p.hall.removeLeftovers(ctx)); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "\n%s: %s", s.name, report)
	for _, claim := range found {
		broken = append(broken, s.name+": "+claim)
	}
	return broken, nil
}

// place is where the commands run: a folder of their own, with a home and a store
// in it, so that nothing of the person's is read or left behind.
type place struct {
	dir, work      string
	drover, python string // absolute
	env            []string
	maps           mapOptions
	hall           *hall // nil until a map section wants it
}

// furnish makes a place. The interpreter is asked for its own path first: what
// stands on PATH may be a launcher that looks into the real HOME.
func furnish(ctx context.Context, drover, python string) (*place, error) {
	program, err := filepath.Abs(drover)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("find the program to measure: %w: run make build", err)
	}
	interpreter, err := interpreterOf(ctx, python)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "drover-bench-")
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, work: filepath.Join(dir, "work"), drover: program, python: interpreter}
	p.env = environ(os.Environ(), dir)
	err = os.Mkdir(p.work, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.work, "hello.py"), []byte("print('hello', flush=True)\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// environ is the caller's environment with the homes of all kinds moved to dir and
// drover's own settings taken out, but for a store in dir.
func environ(caller []string, dir string) []string {
	var env []string
	for _, v := range caller {
		if name, _, _ := strings.Cut(v, "="); name != "HOME" && !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "DROVER_") {
			env = append(env, v)
		}
	}
	at := func(name, folder string) string { return name + "=" + filepath.Join(dir, folder) }
	return append(env, at("HOME", "home"), at("XDG_DATA_HOME", "home/data"), at("XDG_STATE_HOME", "home/state"),
		at("XDG_CACHE_HOME", "home/cache"), at("XDG_CONFIG_HOME", "home/config"), at("DROVER_STORE", "store"),
		// or Open MPI refuses root, and more processes than cores
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1")
}

// busy says whether more than half of the cores have something else to do.
func busy(load string, cores int) bool {
	figure, err := strconv.ParseFloat(strings.TrimPrefix(load, "load "), 64)
	return err == nil && figure > float64(cores)/2
}

// load is the machine's own word for how busy it is, where it has one.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return "load " + fields[0]
	}
	return "load not known"
}
