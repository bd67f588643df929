package gcpbatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/job"
)

// Where no spot capacity comes within ten minutes, one look has on-demand machines in its place, also when looks are cut off, and agents start once.
func TestOnDemandMachinesComeWhereSpotCapacityDoesNot(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.HoldSpot("CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED")
	r := l.request(t, 1, 2)
	r.Needs.Spot = job.SpotFirst
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	spot, onDemand := jobName(h), onDemandName(jobName(h))
	l.Age(spot, firstTime-time.Minute)
	if all, err := l.Status(t.Context(), h); err != nil || count(all, driver.Waiting) != 2 || !strings.HasPrefix(all[0].Reason, "Google has none of its machines now") || !slices.Equal(l.Jobs(), []string{spot}) {
		t.Fatalf("%+v, %v; jobs %s", all, err, l.Jobs())
	}
	l.Age(spot, time.Minute)
	l.Forbid("batch.jobs.create")
	drivertest.Until(t, "a user that may only look sees why", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Waiting) == 2 && strings.HasSuffix(all[0].Reason, "; create the job in Google Batch: the server says 403: Permission 'batch.jobs.create' denied on resource (or it may not exist)")
	})
	l.Forbid("")
	l.LoseCreate(true) // the answer to the request for the other job
	drivertest.Until(t, "a look has no answer", func() bool {
		_, err := l.Status(t.Context(), h)
		return err != nil
	})
	l.LoseCreate(false)
	if !slices.Equal(l.Jobs(), []string{spot, onDemand}) {
		t.Fatalf("there are %s", l.Jobs())
	}
	drivertest.Until(t, "both run", func() bool {
		all, err := (located{l.project.driver(), l.project}).Status(t.Context(), h) // another command
		return err == nil && len(all) == 2 && runs(all, 0) && runs(all, 1)
	})
	if got := l.Asked(onDemand); !slices.Equal(l.Jobs(), []string{onDemand}) || got.AllocationPolicy.Instances[0].Policy.ProvisioningModel != "STANDARD" || got.Labels[labelFirst] != "" || got.Labels["drover_job"] != jobID {
		t.Errorf("there are %s; %+v", l.Jobs(), got)
	}
	id, index := l.task(t, h, 0)
	l.Kill(onDemand, 0) // a machine of the second job: its agent is lost, and no other one is
	if id != spot || index != 0 {
		t.Errorf("agent 0 is task %d of %s", index, id)
	}
	drivertest.Until(t, "one is lost", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Lost) == 1 && count(all, driver.Running) == 1
	})
	ids, err := (located{l.project.driver(), l.project}).engine.Find(t.Context(), h)
	if err != nil || !slices.Contains(ids, onDemand) {
		t.Errorf("found are %s, %v", ids, err)
	}
	if err := l.Stop(t.Context(), h, 0, false); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it has stopped", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && count(all, driver.Running) == 0 && count(all, driver.Waiting) == 0
	})
	l.remove(t, h)
	if left := l.Jobs(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// Once there is an order to stop nothing more is made: no on-demand job, and no part of a placement that is missing.
func TestAStoppedPlacementMakesNoJobs(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	r := l.request(t, 1, 2)
	r.Needs.Spot = job.SpotFirst
	first, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	l.Age(jobName(first), 2*firstTime)
	r = l.request(t, 2, mostTasks+1)
	many, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.engine.client(site{"europe-west1", "demo-project"}).Delete(t.Context(), jobName(many)+"-2"); err != nil { // as if it had never been made
		t.Fatal(err)
	}
	asked := l.Requests("jobs.create")
	for _, h := range []driver.Handle{first, many} {
		if err := l.Stop(t.Context(), h, 0, false); err != nil {
			t.Fatal(err)
		}
		drivertest.Until(t, "all have ended", func() bool {
			all, err := l.Status(t.Context(), h)
			return err == nil && count(all, driver.Ended) == len(all) && len(all) > 1
		})
	}
	if n := l.Requests("jobs.create") - asked; n > 0 {
		t.Errorf("%d jobs were asked for", n)
	}
}

// Spot capacity that comes at the last moment, while another look makes the other job, is an agent all the same: that of the other job goes on from it, or leaves.
func TestSpotCapacityThatComesLate(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	r := l.request(t, 1, 1)
	r.Needs.Spot = job.SpotFirst
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it runs", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && runs(all, 0)
	})
	l.Age(jobName(h), 2*firstTime)
	if all, err := l.Status(t.Context(), h); err != nil || !runs(all, 0) || !slices.Equal(l.Jobs(), []string{jobName(h)}) {
		t.Errorf("what runs is left alone: %+v, %v; jobs %s", all, err, l.Jobs())
	}
	name := onDemandName(jobName(h)) // as by a look that began before it ran
	if err := create(t.Context(), l.engine.client(site{"europe-west1", "demo-project"}), name, onDemand(l.Asked(jobName(h)), name), nil); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "both are agents, of different numbers", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && len(all) == 2 && runs(all, 0) && runs(all, 1)
	})
	l.remove(t, h)
	if left := l.Jobs(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}
