package data

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Put is drover put.
type Put struct{ *app.App }

// NewPut returns a Put of an invocation.
func NewPut(a *app.App) Put { return Put{a} }

// Command returns the verb's command, with its flags.
func (a Put) Command() *cobra.Command {
	node := 0
	c := &cobra.Command{Use: "put SOURCE URL | put TASK state FOLDER", Short: "Copy files to a bucket; or make a folder a task's next state", Args: app.Between(2, 3)}
	a.AddStoreFlags(c)
	c.Flags().IntVar(&node, "node", 0, "the node whose state it is")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	var o drover.CopyOptions
	c.Flags().BoolVar(&o.Checksum, "checksum", false, "to a bucket: compare contents also where size and time have not changed")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if drover.IsURL(args[1]) && len(args) == 2 {
			return bring.NewBringer(a.App).UploadFolder(cmd.Context(), args[0], args[1], o)
		}
		if drover.IsURL(args[0]) {
			return fault.New(fault.Invalid, "Write `drover get "+args[0]+" "+args[1]+"`: get brings, put sends.", "put: %q is not a file or folder here", args[0])
		}
		if args[1] != "state" || len(args) != 3 {
			return fault.New(fault.Invalid, "Write it as `drover put FOLDER s3://bucket/folder`, or `drover put "+args[0]+" state FOLDER`.", "put: %q is not a part of a task that can be put", args[1])
		}
		if info, err := os.Stat(args[2]); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "Name a folder.", "put state: %q is not a folder", args[2])
		}
		if node < 0 {
			return fault.New(fault.Invalid, "Use 0 or more.", "read --node: %d", node)
		}
		cl, project, task, err := a.FindTask(cmd.Context(), args[:1])
		if err != nil {
			return err
		}
		k, err := cl.PutState(cmd.Context(), project, task, node, args[2])
		if err != nil {
			return err
		}
		a.Note("state of %s/%s, node %d: %s, %s", project, task, node, terminal.Count(k.Files, "file"), terminal.Size(k.Bytes))
		return nil
	}
	return c
}
