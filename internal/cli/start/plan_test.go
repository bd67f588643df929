package start

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	prices "github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/job"
)

func TestThePlanOfAMap(t *testing.T) {
	plan := func(items drover.PlannedItems, change func(*drover.Plan)) *drover.Plan {
		p := &drover.Plan{Action: "start", Items: items,
			Spec: job.Spec{Verb: job.Map, Program: "./resize.sh", Args: []string{"{}", "{out}"}, Nodes: 1, Items: job.Items{From: "photos.txt", Workers: 1}}}
		if change != nil {
			change(p)
		}
		return p
	}
	whole := func(p *drover.Plan) {
		p.Spec.From, p.Spec.Slots, p.Spec.Workers, p.Spec.Retries, p.Spec.MaxFails = "-", 16, 3, 2, "5%"
		p.Spec.Out, p.Spec.ItemTimeout = []string{"small/{.stem}.webp", "meta/{n}.json"}, job.Duration(90*time.Second)
		p.Spec.Limits, p.Spec.GPUs, p.Spec.Queue, p.Spec.Priority = job.Limits{CPUs: 2, Memory: 4 << 30, Processes: 10, Disk: 1 << 30}, 1, "night", 5
		p.Action = "reopen"
		p.Cost = drover.Cost{Requests: drover.Requests{Reads: 1}, Price: prices.GCS(), Here: true}
	}
	var lines []string
	for _, p := range []*drover.Plan{
		plan(drover.PlannedItems{Count: 1_000_000, Format: "lines", New: 1_000_000, Chunks: 245}, func(p *drover.Plan) {
			p.Cost = drover.Cost{Requests: drover.Requests{Writes: 12_000, Lists: 20, Reads: 30_000}, Minute: drover.Requests{Writes: 10, Reads: 20}, Price: prices.S3()}
		}),
		plan(drover.PlannedItems{Count: 1, Format: "csv", Fields: []string{"name", "file"}, Notes: []string{"2 blank lines are skipped", "b", "c", "d", "e"},
			New: 3, Again: 1234, Gone: 7, Chunks: 1}, whole),
		plan(drover.PlannedItems{Count: 12}, func(p *drover.Plan) { p.Spec.Args = nil }),
		plan(drover.PlannedItems{Count: 12}, func(p *drover.Plan) { p.Spec.Args, p.Spec.Stdin = nil, true }),
	} {
		lines = append(append(lines, NewPlanner((&app.App{})).planLines(p)...), "")
	}
	clitest.CheckScreen(t, "map-plan", lines)
}

func TestAPilotsFigures(t *testing.T) {
	var lines []string
	for _, r := range []drover.Pilot{
		{Items: 20, Of: 1_000_000, Tally: job.Tally{Items: 20, Succeeded: 20}, Mean: 0.052, Least: 0.0121, Most: 0.21, MaxRSS: 31 << 20,
			Forecast: drover.Forecast{Seconds: 6500, Low: 5100, High: 7900, Slots: 8, Writes: 3021, Lists: 12, Reads: 4188, Dollars: 0.0168}},
		{Items: 20, Of: 100, Tally: job.Tally{Items: 20, Succeeded: 17, Failed: 2, Quarantined: 1}, Mean: 42, Least: 41.5, Most: 43,
			Forecast: drover.Forecast{Seconds: 4200, Low: 4150, High: 4250, Slots: 1, Reads: 1, Dollars: 4e-7}},
		{Items: 1, Of: 2, Tally: job.Tally{Items: 1, Succeeded: 1}, Mean: 0.0004, Least: 0.0004, Most: 0.0004, Forecast: drover.Forecast{Seconds: 0.3, Low: 0.3, High: 0.3, Slots: 2}},
	} {
		lines = append(append(lines, pilotLines(r, r.Of != 2)...), "")
	}
	clitest.CheckScreen(t, "map-pilot", lines)
}

func TestADrillsVerdict(t *testing.T) {
	report := func(change func(*drover.DrillReport)) drover.DrillReport {
		r := drover.DrillReport{V: 1, Seed: 7, Items: 100, Calm: "calm1", Drill: "drill2", Hits: map[string]int{"SIGKILL": 7, "notice": 3}, Extra: 12}
		if change != nil {
			change(&r)
		}
		return r
	}
	differences := func(n int, anyway bool) (all []drover.Difference) {
		for i := range n {
			all = append(all, drover.Difference{Item: i + 1, Value: "photo.png", What: "result", Before: "fresh\n", After: strings.Repeat("again ", 30), Anyway: anyway})
		}
		return all
	}
	var lines []string
	for _, r := range []drover.DrillReport{
		report(nil),
		report(func(r *drover.DrillReport) {
			r.Hits, r.Extra = map[string]int{"SIGTERM": 1, "pause": 1, "program": 2, "SIGKILL": 1}, 0
		}),
		report(func(r *drover.DrillReport) { r.Hits = nil }),
		report(func(r *drover.DrillReport) { r.Findings = 1 }),
		report(func(r *drover.DrillReport) { r.Differences = differences(1, false) }),
		report(func(r *drover.DrillReport) { r.Differences = append(differences(2, true), differences(5, false)...) }),
		report(func(r *drover.DrillReport) {
			r.Differences = []drover.Difference{{Item: 3, Value: "x", What: "state", Before: "SUCCEEDED", After: "QUARANTINED"}, {Item: 4, Value: "y", What: "o/4.txt", Before: "", After: "ab"}}
		}),
	} {
		lines = append(append(lines, drillLines(r)...), "")
	}
	clitest.CheckScreen(t, "map-drill", lines)
}

func TestTheCommandForAllItemsIsThatWithoutItsPilot(t *testing.T) {
	for _, row := range []struct {
		typed []string
		piped bool
		want  string
	}{
		{[]string{"map", "--from", "1-9", "--pilot", "20", "-j", "2", "--", "./w.sh", "{}"}, false, "drover map --from 1-9 -j 2 -- ./w.sh {}"},
		{[]string{"map", "--pilot=20", "--from", "-", "w.sh", "--pilot", "a b", "it's", ""}, true, `... | drover map --from - w.sh --pilot 'a b' 'it'\''s' ''`},
		{[]string{"map", "--from", "*.png", "--pilot", "2", "sh", "-c", "x | y"}, false, "drover map --from '*.png' sh -c 'x | y'"},
	} {
		a := &app.App{Typed: row.typed}
		if diff := cmp.Diff(row.want, newTrial(a).commandWithoutPilot(row.piped)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestWhatACommandWouldDoIsInWords(t *testing.T) {
	var lines []string
	show := func(change func(p *drover.Plan)) {
		p := &drover.Plan{Action: drover.ActionStart, Spec: job.Spec{Verb: job.Run, Project: "p", Task: "t", Program: "train.py", Nodes: 1, On: "local"}}
		change(p)
		lines = append(lines, apptest.OnScreen(func(a *app.App) {
			if err := NewPlanner(a).showPlan(p); err != nil && apptest.ExitOf(err) != fault.ExitComplete {
				t.Error(err)
			}
		})...)
	}
	for _, action := range []drover.Action{"start", "attach", "resume", "replace", "skip", "extend", "reopen"} {
		show(func(p *drover.Plan) { p.Action = action })
	}
	show(func(p *drover.Plan) { p.TakesNewCode = true })
	show(func(p *drover.Plan) {
		p.Spec.Nodes, p.Spec.Procs, p.Spec.Launcher, p.Spec.GPUs, p.Spec.Machine = 2, 4, job.MPI, 1, "ml.p3.2xlarge"
		p.Spec.Processes = 1
		p.Properties, p.Offer = driver.Properties{Attached: true, Containers: true}, driver.Offer{Machine: "this machine", Cores: 1}
	})
	for _, stream := range []bool{true, false} {
		show(func(p *drover.Plan) {
			p.Spec.Verb, p.Spec.From, p.Spec.Fetch, p.Spec.Stream, p.Spec.Processes = job.Map, "list.csv", true, stream, 1
			p.Items = drover.PlannedItems{Count: 3, Fields: []string{"file"}}
		})
	}
	for _, held := range []bool{true, false} { // by the target's own engine
		show(func(p *drover.Plan) {
			p.Spec.On, p.Spec.Timeout, p.Properties = "shed", job.Duration(time.Hour), driver.Properties{TimeLimit: held}
		})
	}
	price := driver.Price{OnDemand: 1.006, Spot: 0.4102, Currency: "USD", Source: "price list, eu-central-1", Day: "2026-11-23"}
	show(func(p *drover.Plan) { p.Offer = driver.Offer{Machine: "g5.xlarge", Price: price} })
	show(func(p *drover.Plan) {
		p.Spec.Verb, p.Spec.From = job.Map, "list.csv"
		p.Items, p.Offer = drover.PlannedItems{Count: 3}, driver.Offer{Machine: "g5.xlarge", Price: driver.Price{OnDemand: 0.5, Currency: "USD", Source: "price list", Day: "2026-11-23"}}
	})
	clitest.CheckScreen(t, "plan-actions", lines)
}

func TestWhatADrillDoesIsInWords(t *testing.T) {
	lines := apptest.OnScreen(func(a *app.App) {
		for _, hit := range []string{"SIGKILL", "SIGTERM", "notice", "pause", "program"} {
			newTrial(a).noteDrillEvent(drover.DrillEvent{Hit: hit, Agent: "1-0-33b2", After: time.Second})
		}
	})
	for _, stage := range []string{"calm", "drill", "again"} {
		lines = append(lines, stageLine(stage, 100, "t-"+stage))
	}
	clitest.CheckScreen(t, "drill-stages", lines)
}
