package gc

import (
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// choice is which jobs go. It is made of facts alone, so that Collect can make it
// again and drop what has come into use since.
type choice struct {
	going map[job.Path]string // and why
	// because is the newer success that lets a success go: not both may.
	because map[job.Path]tasks.Place
	order   []*removal.Counted // a job that was given something comes before the job that gave it
	kept    []Leftover
}

// includesTask says whether a job of a task goes.
func (c choice) includesTask(task job.Path) bool {
	for p := range c.going {
		if p.Project == task.Project && p.Task == task.Task {
			return true
		}
	}
	return false
}

// chooseJobs picks the settled jobs that o lets go, and takes back those that another job
// needs. jobs are in the order of their tasks and places. may are the only ones that
// can go, nil: all. One that may not, and was made from another, keeps that.
func (o Options) chooseJobs(jobs []*removal.Counted, may map[job.Path]bool, now time.Time) choice {
	c := choice{going: map[job.Path]string{}, because: map[job.Path]tasks.Place{}}
	asked := map[job.Path]bool{}
	for _, p := range o.Jobs {
		asked[p] = true
	}
	newer := map[job.Path]int{}           // settled jobs of a task that come after this one
	success := map[job.Path]tasks.Place{} // the task's newest success
	for i := len(jobs) - 1; i >= 0; i-- {
		j := jobs[i]
		if j.Bad != nil {
			if asked[j.Path] {
				c.keepJob(j, j.Bad.Error())
			}
			continue
		}
		if j.Live() && asked[j.Path] {
			c.keepJob(j, "it has not ended")
		}
		if !j.There || j.Removed || j.Settled == nil {
			continue
		}
		task := job.Path{Project: j.Path.Project, Task: j.Path.Task}
		can := may == nil || may[j.Path]
		latest := j.Settled.State == job.Succeeded && success[task].Job == "" && !(can && asked[j.Path])
		if latest { // when the newest is named, the one before it is
			success[task] = tasks.Place{Job: j.Path.Job, Place: j.Place}
		}
		switch {
		case !can || latest:
		case asked[j.Path]:
			c.going[j.Path] = "it was named"
		default:
			if why := o.whyJobMayGo(j, newer[task], now); why != "" {
				c.going[j.Path] = why
				if j.Settled.State == job.Succeeded {
					c.because[j.Path] = success[task]
				}
			}
		}
		newer[task]++
	}
	c.keepOrigins(jobs)
	c.sortByOrigin(jobs)
	return c
}

// whyJobMayGo says why a job may go that the options do not name; "" when it stays.
func (o Options) whyJobMayGo(j *removal.Counted, newer int, now time.Time) string {
	if !o.includesJob(j.Path) || o.Keep <= 0 && o.Older <= 0 {
		return ""
	}
	var why []string
	if o.Keep > 0 {
		if newer < o.Keep {
			return ""
		}
		why = append(why, plural(newer, "newer job")+" of its task ended")
	}
	if o.Older > 0 {
		if now.Sub(j.Ended) <= o.Older {
			return ""
		}
		why = append(why, "it ended "+ago(now.Sub(j.Ended))+" ago")
	}
	return strings.Join(why, ", and ")
}

func (c *choice) keepJob(j *removal.Counted, why string) {
	c.kept = append(c.kept, Leftover{Kind: LeftJob, Name: j.Path.String(), Why: why, job: j.Path})
}

// keepJobAndOrigins takes back a job, and with it what it was made from.
func (c *choice) keepJobAndOrigins(p job.Path, jobs []*removal.Counted) {
	delete(c.going, p)
	c.keepOrigins(jobs)
}

// keepOrigins takes back what a job that stays was made from, however far back.
func (c *choice) keepOrigins(jobs []*removal.Counted) {
	for again := true; again; {
		again = false
		for _, j := range jobs {
			if _, goes := c.going[j.Path]; goes || !j.There || j.Removed {
				continue
			}
			for _, origin := range origins(j) {
				if _, goes := c.going[origin]; !goes {
					continue
				}
				delete(c.going, origin)
				c.kept = append(c.kept, Leftover{Kind: LeftJob, Name: origin.String(), Why: "job " + j.Path.String() + " was made from it", job: origin})
				again = true
			}
		}
	}
}

// origins are the jobs that a job was given something of.
func origins(j *removal.Counted) []job.Path {
	var all []job.Path
	for _, o := range j.Job.Lineage {
		parts := strings.Split(o.Job, "/")
		if len(parts) == 3 {
			all = append(all, job.Path{Project: parts[0], Task: parts[1], Job: parts[2]})
		}
	}
	return all
}

// sortByOrigin puts a job that was given something before the job that gave it, so that a
// gc that is cut short leaves no job with an origin that it has removed.
func (c *choice) sortByOrigin(jobs []*removal.Counted) {
	made := map[job.Path][]*removal.Counted{} // from a job
	for _, j := range jobs {
		for _, origin := range origins(j) {
			made[origin] = append(made[origin], j)
		}
	}
	done := map[job.Path]bool{}
	var visit func(*removal.Counted)
	visit = func(j *removal.Counted) {
		if _, goes := c.going[j.Path]; !goes || done[j.Path] {
			return
		}
		done[j.Path] = true
		for _, later := range made[j.Path] {
			visit(later)
		}
		c.order = append(c.order, j)
	}
	for _, j := range jobs {
		visit(j)
	}
}
