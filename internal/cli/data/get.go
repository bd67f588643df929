package data

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Get is drover get.
type Get struct{ *app.App }

// NewGet returns a Get of an invocation.
func NewGet(a *app.App) Get { return Get{a} }

// Command returns the verb's command, with its flags.
func (a Get) Command() *cobra.Command {
	output := ""
	c := &cobra.Command{Use: "get [JOB] | get TASK state | get URL [TARGET]", Short: "Bring a job's outputs and logs; a task's state; or files from a bucket", Args: cobra.MaximumNArgs(2), ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "folder, or s3://bucket/folder, to put them in (default: the job's id)")
	a.AddOverwriteFlag(c.Flags())
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	var o drover.CopyOptions
	c.Flags().BoolVar(&o.Checksum, "checksum", false, "from a bucket: compare contents also where size and time have not changed")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && drover.IsURL(args[0]) {
			return bring.NewBringer(a.App).DownloadURL(cmd.Context(), args[0], strings.Join(append(args[1:], output)[:1], ""), o)
		}
		if len(args) == 2 {
			return a.downloadState(cmd.Context(), args, output)
		}
		j, s, err := a.JobAndStatus(cmd.Context(), args)
		if err != nil {
			return err
		}
		if output == "" {
			if output, err = absent(s.ID, s.ID); err != nil {
				return err
			}
		}
		switch many, err := summary.IsMap(cmd.Context(), j); {
		case err != nil:
			return err
		case many:
			return bring.NewBringer(a.App).BringItemsOf(cmd.Context(), j, s, output)
		}
		return bring.NewBringer(a.App).BringInto(cmd.Context(), output, func(ctx context.Context, folder string) error {
			got, err := j.Get(ctx, folder, drover.GetOptions{Overwrite: a.Overwrite})
			if err == nil {
				a.Note("%s %s/%s %s", s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
				bring.NewBringer(a.App).PrintGot(got, output)
			}
			return err
		})
	}
	return c
}

// absent refuses a folder that exists, because no flag named it.
func absent(folder, ref string) (string, error) {
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Invalid, "Name a folder: `drover get "+ref+" -o out`.", "get outputs: %q exists already", folder)
	}
	return folder, nil
}

func (a Get) downloadState(ctx context.Context, args []string, output string) error {
	if drover.IsURL(args[1]) {
		return fault.New(fault.Invalid, "Write `drover put "+args[0]+" "+args[1]+"`: put sends, get brings.", "get: %q is a target folder, and the source is missing", args[1])
	}
	if args[1] != "state" {
		return fault.New(fault.Invalid, "Write `drover get JOB`, or `drover get TASK state`.", "get: %q is not a part of a job that can be fetched by itself", args[1])
	}
	c, project, task, err := a.FindTask(ctx, args[:1])
	if err != nil {
		return err
	}
	if output == "" {
		if output, err = absent("state", task+" state"); err != nil {
			return err
		}
	}
	return bring.NewBringer(a.App).BringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := c.GetState(ctx, project, task, folder, drover.GetOptions{Overwrite: a.Overwrite})
		if err == nil {
			a.Note("state of %s/%s: %s, %s   %s", project, task, terminal.Count(got.Files, "file"), terminal.Size(got.Bytes), output)
			bring.NewBringer(a.App).PrintChanges(got.Changes)
		}
		return err
	})
}
