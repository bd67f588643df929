package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
)

// getVerb is drover get.
type getVerb struct{ *app }

func newGetVerb(a *app) getVerb { return getVerb{a} }

func (a getVerb) command() *cobra.Command {
	output := ""
	c := &cobra.Command{Use: "get [JOB] | get TASK state | get URL [TARGET]", Short: "Bring a job's outputs and logs; a task's state; or files from a bucket", Args: cobra.MaximumNArgs(2), ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "folder, or s3://bucket/folder, to put them in (default: the job's id)")
	a.addOverwriteFlag(c.Flags())
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	var o drover.CopyOptions
	c.Flags().BoolVar(&o.Checksum, "checksum", false, "from a bucket: compare contents also where size and time have not changed")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && drover.IsURL(args[0]) {
			return newBringer(a.app).downloadURL(cmd.Context(), args[0], strings.Join(append(args[1:], output)[:1], ""), o)
		}
		if len(args) == 2 {
			return a.downloadState(cmd.Context(), args, output)
		}
		j, s, err := a.jobAndStatus(cmd.Context(), args)
		if err != nil {
			return err
		}
		if output == "" {
			if output, err = absent(s.ID, s.ID); err != nil {
				return err
			}
		}
		switch many, err := isMap(cmd.Context(), j); {
		case err != nil:
			return err
		case many:
			return newBringer(a.app).bringItemsOf(cmd.Context(), j, s, output)
		}
		return newBringer(a.app).bringInto(cmd.Context(), output, func(ctx context.Context, folder string) error {
			got, err := j.GetWith(ctx, folder, drover.GetOptions{Overwrite: a.overwrite})
			if err == nil {
				a.note("%s %s/%s %s", s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
				newBringer(a.app).printGot(got, output)
			}
			return err
		})
	}
	return c
}

// absent refuses a folder that is there: nobody named it.
func absent(folder, ref string) (string, error) {
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Invalid, "Name a folder: drover get "+ref+" -o out.", "get outputs: %q exists already", folder)
	}
	return folder, nil
}

func (a getVerb) downloadState(ctx context.Context, args []string, output string) error {
	if drover.IsURL(args[1]) {
		return fault.New(fault.Invalid, "Write drover put "+args[0]+" "+args[1]+": put sends, get brings.", "get: %q is a target folder, and the source is missing", args[1])
	}
	if args[1] != "state" {
		return fault.New(fault.Invalid, "Write drover get JOB, or drover get TASK state.", "get: %q is not a part of a job that can be fetched by itself", args[1])
	}
	c, project, task, err := a.findTask(ctx, args[:1])
	if err != nil {
		return err
	}
	if output == "" {
		if output, err = absent("state", task+" state"); err != nil {
			return err
		}
	}
	return newBringer(a.app).bringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := c.GetStateWith(ctx, project, task, folder, drover.GetOptions{Overwrite: a.overwrite})
		if err == nil {
			a.note("state of %s/%s: %s, %s   %s", project, task, count(got.Files, "file"), size(got.Bytes), output)
			newBringer(a.app).printChanges(got.Changes)
		}
		return err
	})
}
