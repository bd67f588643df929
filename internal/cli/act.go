package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// versionVerb is drover version.
type versionVerb struct{ *app }

func newVersionVerb(a *app) versionVerb { return versionVerb{a} }

// doctorVerb is drover doctor.
type doctorVerb struct{ *app }

func newDoctorVerb(a *app) doctorVerb { return doctorVerb{a} }

// cancelVerb is drover cancel.
type cancelVerb struct{ *app }

func newCancelVerb(a *app) cancelVerb { return cancelVerb{a} }

// resumeVerb is drover resume.
type resumeVerb struct{ *app }

func newResumeVerb(a *app) resumeVerb { return resumeVerb{a} }

// waitVerb is drover wait.
type waitVerb struct{ *app }

func newWaitVerb(a *app) waitVerb { return waitVerb{a} }

func (a waitVerb) command() *cobra.Command {
	timeout := ""
	c := &cobra.Command{Use: "wait [JOB]", Short: "Wait until a job has ended; the exit status is the job's", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	c.Flags().StringVar(&timeout, "timeout", "", "wait no longer than this (exit status 124)")
	a.addNotifyFlag(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.findJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		limit := job.Duration(0)
		if timeout != "" {
			if limit, err = job.ParseDuration(timeout); err != nil {
				return err
			}
		}
		return newNotifier(a.app).notifyEnd(cmd.Context(), j, a.waitForEnd(cmd, j, time.Duration(limit)))
	}
	return c
}

// waitForEnd only looks: unlike resume it asks for no agents. A job that is
// interrupted would be waited for in vain, so it is said.
func (a waitVerb) waitForEnd(cmd *cobra.Command, j *drover.Job, limit time.Duration) error {
	s, err := j.Until(cmd.Context(), limit)
	if err != nil {
		return err
	}
	switch {
	case s.State.Settled():
		return newFollower(a.app).reportEnd(cmd.Context(), j, s, "")
	case s.State == job.Interrupted:
		return fault.New(fault.Interrupted, "Continue it: drover resume "+s.ID+".", "wait for job %s: it is interrupted, and no agent works on it", s.ID)
	}
	return fault.New(fault.TimedOut, "It is still running; drover logs -f "+s.ID+" follows it.", "wait for job %s: still %s", s.ID, s.State)
}

func (a resumeVerb) command() *cobra.Command {
	output, detach := "", false
	c := &cobra.Command{Use: "resume [JOB]", Short: "Put agents back to work on an unfinished job", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "folder, or s3://bucket/folder, that receives the outputs")
	a.addOverwriteFlag(f)
	f.BoolVar(&detach, "detach", false, "return as soon as it is started")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	a.addNotifyFlag(f)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmp.Or(newNotifier(a.app).checkNotify(detach), a.checkMayStart()); err != nil {
			return err
		}
		if !detach { // a job that needs none goes on; another one is refused
			if err := a.giveStdin(false); err != nil {
				return err
			}
		}
		j, s, err := a.jobAndStatus(cmd.Context(), args)
		if err != nil {
			return err
		}
		if s.State.Settled() {
			return fault.New(fault.Invalid, "Run its command again for a new job.", "resume job %s: it has ended, %s", s.ID, s.State)
		}
		if err := a.resumePausedMap(cmd.Context(), j, s); err != nil {
			return err
		}
		if detach {
			return j.Start(cmd.Context())
		}
		attached, err := j.Attached(cmd.Context())
		if err != nil {
			return err
		}
		return newNotifier(a.app).notifyEnd(cmd.Context(), j, newFollower(a.app).followJob(cmd.Context(), j, s.ID, output, attached, time.Now()))
	}
	return c
}

func (a cancelVerb) command() *cobra.Command {
	reason, drain := "", false
	c := &cobra.Command{Use: "cancel [JOB ...]", Short: "Stop jobs for good", ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	c.Flags().StringVar(&reason, "reason", "", "reason, which is recorded")
	c.Flags().BoolVar(&drain, "drain", false, "of maps: items that run may end and are recorded; nothing more begins")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fault.New(fault.Invalid, "Name it: drover cancel last.", "cancel: no job named")
		}
		if reason == "" {
			reason = "cancelled by hand"
		}
		for _, ref := range args {
			if err := a.cancelJob(cmd.Context(), ref, reason, drain); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func (a doctorVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check this machine, the store and what was left behind", Args: exactly(0)}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	whose := c.Flags().String("policy", "", "print what agents, or submitters, must be granted on the store, and stop")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *whose != "" {
			return a.printPolicy(cmd.Context(), *whose)
		}
		cl, err := a.openClient(cmd.Context())
		if err != nil {
			return err
		}
		conf, err := a.readConfig()
		if err != nil {
			return err
		}
		on, err := conf.use("on")
		if err != nil {
			return err
		}
		checks := append([]drover.Check{{Area: "this machine", OK: true, Text: fmt.Sprintf("drover %s %s/%s", a.Version, runtime.GOOS, runtime.GOARCH)}},
			cl.Doctor(cmd.Context(), on)...)
		bad := 0
		for _, ch := range checks {
			if !ch.OK {
				bad++
			}
		}
		if a.settings.json {
			if err := newJSON(a.out).Encode(checks); err != nil {
				return err
			}
		} else {
			a.printChecks(checks, bad)
		}
		if bad > 0 {
			return status(fault.ExitItems)
		}
		return nil
	}
	return c
}

// printPolicy prints what somebody must be granted on the store, for its owner.
func (a doctorVerb) printPolicy(ctx context.Context, whose string) error {
	project, err := a.projectName()
	if err != nil {
		return err
	}
	r, ok := drover.RightsOf(whose, project)
	if !ok {
		return fault.New(fault.Invalid, "Write --policy agents, or --policy submitters.", "print policy: unknown role %q", whose)
	}
	url, endpoint, err := a.storeURL()
	if err != nil {
		return err
	}
	rights, err := a.storeRights(ctx, url, endpoint)
	if err != nil {
		return err
	}
	if rights.Policy == nil {
		return fault.New(fault.Invalid, "Name a bucket: --store s3://bucket/prefix.", "print policy: a user that may write to the folder %s may do everything", url)
	}
	text, err := rights.Policy(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}

func (a doctorVerb) printChecks(checks []drover.Check, bad int) {
	area := ""
	for _, ch := range checks {
		if ch.Area == area {
			ch.Area = ""
		} else {
			area = ch.Area
		}
		sign := "✓"
		switch {
		case !ch.OK:
			sign = "✗"
		case ch.Unused:
			sign = "–"
		}
		fmt.Fprintf(a.out, "%-13s %s %s\n", ch.Area, sign, plainText(ch.Text))
		if ch.Fix != "" {
			fmt.Fprintf(a.out, "%-13s   %s\n", "", plainText(ch.Fix))
		}
	}
	if bad == 0 {
		fmt.Fprintln(a.out, "No problems.")
	} else {
		fmt.Fprintf(a.out, "%s.\n", count(bad, "problem"))
	}
}

func (a versionVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print drover's version", Args: exactly(0)}
	a.addJSONFlag(c)
	var all bool
	c.Flags().BoolVar(&all, "licences", false, "print the licences and notices of all that is linked into drover")
	c.Flags().BoolVar(&all, "licenses", false, "as --licences")
	_ = c.Flags().MarkHidden("licenses")
	c.RunE = func(*cobra.Command, []string) error {
		if all {
			return a.printLicences()
		}
		if a.settings.json {
			return newJSON(a.out).Encode(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(a.out, "drover %s %s/%s %s\n", a.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		return err
	}
	return c
}
