package places

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/job"
)

// Image is drover image.
type Image struct{ *app.App }

// NewImage returns an Image of an invocation.
func NewImage(a *app.App) Image { return Image{a} }

// Command returns the verb's command, with its flags.
func (a Image) Command() *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Build container images, list what was built, push it to a registry", Args: app.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.printImages(cmd.Context()) }}
	c.AddCommand(a.buildCommand(), a.listCommand(), a.pushCommand(), a.copyCommand(), a.agentCommand())
	return c
}

// imageFlags say what to build.
type imageFlags struct {
	container                         job.Container
	machine, platform, push, output   string
	gpus                              int
	append, docker, pull, force, plan bool
}

func (a Image) buildCommand() *cobra.Command {
	s := &imageFlags{}
	c := &cobra.Command{Use: "build [DOCKERFILE]", Short: "Build an image from a folder, a Dockerfile or its text; again: nothing, while nothing changed", Args: app.Between(0, 1)}
	a.AddJSONFlag(c)
	f := c.Flags()
	f.StringVarP(&a.Settings.Project, "project", "p", "", "project, which is part of the name (default: drover.yaml, or the folder's name)")
	f.StringVar(&s.container.Image, "image", "", "image that __BASE_IMAGE__ stands for, and that a Dockerfile without FROM begins from; oci:./FOLDER and tar:./FILE are images too")
	f.StringVarP(&s.container.Framework, "framework", "f", "", "the same by NAME[:VERSION[:PYTHON]] of a prebuilt SageMaker image, such as pytorch:2.8.0:py312")
	f.IntVar(&s.gpus, "gpus", 0, "GPUs for each node: the framework's image for GPUs")
	f.StringVar(&s.machine, "machine", "", "type of machine, such as ml.p3.2xlarge: its family says the same")
	f.StringVar(&s.platform, "platform", "", "system and processor, such as linux/arm64 (default: this machine's)")
	f.StringVar(&s.push, "push", "", "push it below a registry's prefix, such as ghcr.io/me, instead of leaving it in Docker")
	f.StringVarP(&s.output, "output", "o", "", "write it to an archive that docker load reads")
	f.BoolVar(&s.append, "append", false, "append layers, without Docker's builder: for Dockerfiles that only copy files")
	f.BoolVar(&s.docker, "docker", false, "have Docker build it, also where layers could be appended")
	f.BoolVar(&s.pull, "pull", false, "have Docker ask for a newer base first")
	f.BoolVar(&s.force, "force", false, "build though it is there")
	f.BoolVar(&s.plan, "plan", false, "say what would be built, and stop")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "only the image's name")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s.container.Dockerfile = "."
		if len(args) == 1 {
			s.container.Dockerfile = args[0]
		}
		return a.buildImage(cmd.Context(), s)
	}
	return c
}

// buildSite is where images are resolved for a project.
func (a Image) buildSite(s *imageFlags) (image.Site, error) {
	project, err := a.ProjectName()
	if err != nil {
		return image.Site{}, err
	}
	conf, err := a.ReadConfig()
	if err != nil {
		return image.Site{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return image.Site{}, fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
	}
	region, err := conf.Use("region")
	if err != nil {
		return image.Site{}, err
	}
	mirror := ""
	if s.container.Framework != "" {
		if mirror, err = conf.Use("image_mirror"); err != nil {
			return image.Site{}, err
		}
	}
	return image.Site{Project: project, Dir: dir, GPUs: s.gpus, Machine: s.machine, Platform: s.platform,
		Region: image.Region(os.Getenv, region), Mirror: mirror}, nil
}

func (a Image) buildImage(ctx context.Context, s *imageFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := build.Order{Push: s.push, File: s.output, Force: s.force, Pull: s.pull}
	switch {
	case s.push != "" && s.output != "":
		return fault.New(fault.Invalid, "Write the archive, then: `drover image push FILE REGISTRY`.", "read command line: both --push and -o")
	case s.append && s.docker:
		return fault.New(fault.Invalid, "Leave one of them out.", "read command line: both --append and --docker")
	case s.append:
		o.Way = build.ByAppending
	case s.docker:
		o.Way = build.ByDocker
	}
	site, err := a.buildSite(s)
	if err != nil {
		return err
	}
	if o.Plan, err = image.Resolve(s.container, site); err != nil {
		return err
	}
	b := build.New(ctx, a.ProgressOutput(), a.Registries)
	defer b.Close()
	if err := b.Pin(ctx, o.Plan); err != nil {
		return err
	}
	a.Note("image    %s", terminal.PlainText(o.Plan.Line))
	if s.plan {
		return a.printBuilt(build.Built{Reference: o.Plan.Name(s.push), Digest: o.Plan.Digest})
	}
	built, err := b.Build(ctx, o)
	if err != nil {
		return err
	}
	if built.Skipped {
		a.Note("there already: nothing changed since it was built")
	}
	if s.output != "" {
		a.Note("written to %s", s.output)
	}
	return a.printBuilt(built)
}

func (a Image) printBuilt(b build.Built) error {
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(b)
	}
	_, err := fmt.Fprintln(a.Out, b.Reference)
	return err
}

func (a Image) listCommand() *cobra.Command {
	c := &cobra.Command{Use: "ls", Short: "List the images drover built that Docker has", Args: app.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.printImages(cmd.Context()) }}
	a.AddJSONFlag(c)
	c.Flags().StringVarP(&a.Settings.Project, "project", "p", "", "only this project's")
	return c
}

func (a Image) printImages(ctx context.Context) error {
	d, err := build.Connect(ctx, a.Registries)
	if err != nil {
		return err
	}
	list, err := d.List(ctx, a.Settings.Project)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(list)
	}
	if len(list) == 0 {
		a.Note("no image was built here")
		return nil
	}
	t := terminal.NewTable(a.Out, "IMAGE", "PROJECT", "SIZE", "AGE")
	for _, i := range list {
		t.Row(i.Name, i.Project, terminal.Size(i.Bytes), terminal.Span(time.Since(i.Created)))
	}
	return t.Flush()
}

func (a Image) pushCommand() *cobra.Command {
	as := ""
	c := &cobra.Command{Use: "push IMAGE [REGISTRY]", Short: "Push an image, or an archive of one, to a registry", Args: app.Between(1, 2)}
	a.AddJSONFlag(c)
	c.Flags().StringVar(&as, "as", "", "its whole name there, such as ghcr.io/me/train:1")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "only the image's name")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		registry, err := destination("push", args, as)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		b := build.New(ctx, a.ProgressOutput(), a.Registries)
		defer b.Close()
		ref, err := b.Push(ctx, args[0], registry, as)
		if err != nil {
			return err
		}
		return a.printBuilt(build.Built{Reference: ref})
	}
	return c
}

func (a Image) copyCommand() *cobra.Command {
	as := ""
	c := &cobra.Command{Use: "copy IMAGE [REGISTRY]", Short: "Copy an image from its registry to another one, for all processors, without Docker", Args: app.Between(1, 2)}
	a.AddJSONFlag(c)
	c.Flags().StringVar(&as, "as", "", "its whole name there, such as ghcr.io/me/train:1")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "only the image's name")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		registry, err := destination("copy", args, as)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		ref, err := a.Registries.Copy(ctx, args[0], registry, as)
		if err != nil {
			return err
		}
		return a.printBuilt(build.Built{Reference: ref})
	}
	return c
}

// destination is the registry that a command line names for an image; "": it has the whole name there.
func destination(verb string, args []string, as string) (registry string, err error) {
	if len(args) == 2 {
		registry = args[1]
	}
	if (registry == "") == (as == "") {
		return "", fault.New(fault.Invalid, "Write it as `drover image "+verb+" "+args[0]+" ghcr.io/me`, or with `--as ghcr.io/me/name:1`.", "read command line: a registry or --as says where it goes")
	}
	return registry, nil
}

// systems are those of machines that run agents.
var systems = []string{"linux/amd64", "linux/arm64"}

func (a Image) agentCommand() *cobra.Command {
	c := &cobra.Command{Use: "agent REGISTRY", Short: "Push an image of drover's agent, for targets that want one", Args: app.Exactly(1)}
	a.AddJSONFlag(c)
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "only the image's name")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		self, err := os.Executable()
		if err != nil {
			return err
		}
		find, found := programs.Finder{Self: self, Folders: a.Dirs.Programs()}, map[string]string{}
		var missing error
		for _, system := range systems {
			file, err := find.Find(system)
			switch {
			case err == nil:
				found[system] = file
			case fault.KindOf(err) != fault.Missing:
				return err
			default:
				missing = err
				a.Note("not in it: %s, as there is no program for it here", system)
			}
		}
		if len(found) == 0 {
			return missing
		}
		ref, err := a.Registries.PushAgent(ctx, driver.AgentImageProgram, found, args[0], a.Version)
		if err != nil {
			return err
		}
		a.Note("for Kubernetes: --target-arg agent-image=%s", ref)
		return a.printBuilt(build.Built{Reference: ref})
	}
	return c
}
