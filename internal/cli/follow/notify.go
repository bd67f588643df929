package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Notifier runs the command of --notify when the job has ended.
type Notifier struct{ *app.App }

// NewNotifier returns a Notifier of an invocation.
func NewNotifier(a *app.App) Notifier { return Notifier{a} }

// notifyLimit is how long the command of --notify may take: it sends a message, and the
// user waits for the prompt.
const notifyLimit = time.Minute

// CheckNotify refuses --notify with --detach: no command line is left to run it.
func (a Notifier) CheckNotify(detach bool) error {
	if a.Notify == "" || !detach {
		return nil
	}
	return fault.New(fault.Invalid, "Leave one of them out, or start it with `--detach` and have `drover wait last --notify "+terminal.ShellWord(a.Notify)+"` tell you.",
		"read command line: --detach returns before the job has ended, and --notify is run by the command that waits for it")
}

// NotifyEnd runs what --notify says once the job has ended, and gives back how the
// command that waited for it has ended: nothing that goes wrong here changes that.
func (a Notifier) NotifyEnd(ctx context.Context, j *drover.Job, waited error) error {
	if a.Notify == "" {
		return waited
	}
	ctx = context.WithoutCancel(ctx)
	s, tally, err := summary.StatusWithTally(ctx, j)
	switch {
	case err != nil:
		a.Note("note: --notify was not run: %s", err)
		return waited
	case !s.State.Settled():
		a.Note("note: --notify was not run: %s has not ended, it is %s", s.ID, strings.ToLower(string(s.State)))
		return waited
	}
	if err := a.runNotice(ctx, a.noticeEnviron(s, tally), notifyLimit); err != nil {
		a.Note("note: --notify %s: %s", terminal.ShellWord(a.Notify), err)
	}
	return waited
}

func (a Notifier) noticeEnviron(s drover.Status, tally string) []string {
	code := 0
	if s.Code != nil {
		code = *s.Code
	}
	environ := append(os.Environ(), "DROVER_JOB="+s.ID, "DROVER_PROJECT="+s.Project, "DROVER_TASK="+s.Task, "DROVER_STATE="+string(s.State),
		"DROVER_REASON="+terminal.PlainText(s.Reason), fmt.Sprintf("DROVER_EXIT=%d", code), "DROVER_TALLY="+tally)
	if a.Settings.Store != "" { // so that it may ask drover for more
		environ = append(environ, "DROVER_STORE="+a.Settings.Store)
	}
	return environ
}

// runNotice runs the command with all that it starts, no longer than limit. What it
// prints goes to stderr: stdout is the program's alone.
func (a Notifier) runNotice(ctx context.Context, environ []string, limit time.Duration) error {
	took := fmt.Errorf("it took longer than %s, and was ended", job.Duration(limit))
	ctx, stop := context.WithTimeoutCause(ctx, limit, took)
	defer stop()
	c := exec.CommandContext(ctx, "sh", "-c", a.Notify)
	c.Env, c.Stdout, c.Stderr = environ, a.Err, a.Err
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // for what holds our stderr and has left the group
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it has ended well, and left something behind that goes on
	}
	return err
}
