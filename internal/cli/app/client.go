package app

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// ProjectName is the one that is meant when none is typed.
func (a *App) ProjectName() (string, error) {
	name, _, err := a.ProjectAndFolder()
	return name, err
}

// ProjectAndFolder is the project, and the folder that named it, if neither a flag nor a setting did.
func (a *App) ProjectAndFolder() (name, folder string, err error) {
	if a.Settings.Project != "" {
		return a.Settings.Project, "", job.ValidName("project", a.Settings.Project)
	}
	c, err := a.ReadConfig()
	if err != nil {
		return "", "", err
	}
	p, err := c.Use("project")
	if err != nil {
		return "", "", err
	}
	if p != "" {
		return p, "", job.ValidName("project", p)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", "", fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
	}
	if name := job.Label(terminal.LastElement(dir)); name != "" && name != "ids" && name != "blobs" {
		return name, dir, nil
	}
	return "default", dir, nil
}

// StoreURL is the store that is meant.
func (a *App) StoreURL() (url, endpoint string, err error) {
	c, err := a.ReadConfig()
	if err != nil {
		return "", "", err
	}
	targets, err := a.NamedTargets(c)
	if err != nil {
		return "", "", err
	}
	if url, err = a.configuredStoreURL(c, targets); err != nil {
		return "", "", err
	}
	if url = terminal.OrElse(url, a.Dirs.Data); url == "" {
		return "", "", fault.New(fault.Invalid, "Set HOME, or name a folder with `--store`.", "choose store: neither HOME nor XDG_DATA_HOME is set")
	}
	endpoint, err = a.storeEndpoint(c, url)
	return url, endpoint, err
}

// StoreRights are those of the store that is meant.
func (a *App) StoreRights(ctx context.Context, url, endpoint string) (Rights, error) {
	c, err := a.ReadConfig()
	if err != nil || a.Rights == nil {
		return Rights{}, err
	}
	who, refused := agentIdentity(c, a.Settings.AgentProfile)
	r, err := a.Rights(ctx, url, endpoint, who)
	if refused != nil && r.Passes.Make != nil { // a store in a folder needs neither
		r.Passes.Make = func(context.Context, store.Rights, bool) (drover.Pass, error) { return drover.Pass{}, refused }
	}
	return r, err
}

// agentIdentity returns the identity by which agents open the store, with the profile that was
// typed, if one was; the zero value with an error where it stands in a file that was not confirmed.
func agentIdentity(c *config.Config, typed string) (who Agents, err error) {
	who.Profile = typed
	if err = c.Fill(&who.Profile, "agent_profile"); err == nil {
		err = c.Fill(&who.Role, "agent_role")
	}
	if err != nil {
		return Agents{}, err
	}
	return who, nil
}

// CheckMayStart refuses a command that starts agents under an identity
// that only a setting which was not confirmed names.
func (a *App) CheckMayStart() error {
	c, err := a.ReadConfig()
	if err != nil {
		return err
	}
	url, _, err := a.StoreURL()
	if err == nil && isBucket(url) {
		_, err = agentIdentity(c, a.Settings.AgentProfile)
	}
	return err
}

// isBucket says whether a store is none in a folder.
func isBucket(url string) bool {
	return strings.Contains(url, "://") && !strings.HasPrefix(url, "file://")
}

// Drivers are the targets that --on can name, with their drivers.
func (a *App) Drivers() map[string]driver.Opened {
	return a.OpenTargets(func(ctx context.Context) (*store.Store, error) {
		url, endpoint, err := a.StoreURL()
		if err != nil {
			return nil, err
		}
		b, _, err := a.OpenBucket(ctx, url, endpoint)
		if err != nil {
			return nil, err
		}
		return store.New(b, store.Options{}), nil
	})
}

// OpenClient opens the store that is meant.
func (a *App) OpenClient(ctx context.Context) (*drover.Client, error) {
	url, endpoint, err := a.StoreURL()
	if err != nil {
		return nil, err
	}
	if a.Dirs.State == "" || a.Dirs.Cache == "" {
		return nil, fault.New(fault.Invalid, "Set HOME.", "find a folder for running jobs: HOME is not set, and the one in the temporary folder belongs to another user")
	}
	b, near, err := a.OpenBucket(ctx, url, endpoint)
	if err != nil {
		return nil, err
	}
	r, err := a.StoreRights(ctx, url, endpoint)
	if err != nil {
		return nil, err
	}
	c, err := a.ReadConfig()
	if err != nil {
		return nil, err
	}
	drivers := a.OpenTargets(func(context.Context) (*store.Store, error) { return store.New(b, store.Options{}), nil })
	targets, err := a.NamedTargets(c)
	if err != nil {
		return nil, err
	}
	c.Withhold(targets)
	on := a.Settings.On
	if err := c.Fill(&on, "on"); err != nil {
		return nil, err
	}
	if err := readTargetFiles(on, targets); err != nil {
		return nil, err
	}
	region, err := c.Use("region")
	if err != nil {
		return nil, err
	}
	mirror := c.Get("image_mirror")
	if c.Refuses("image_mirror", mirror) { // jobs with a framework were refused: mayUse
		mirror.Value = ""
	}
	registry := c.Get("image_registry")
	if c.Refuses("image_registry", registry) { // likewise of jobs with an image that is built
		registry.Value = ""
	}
	project, _ := a.ProjectName() // commands that need one say what is wrong with it
	client, err := drover.Open(ctx, drover.Options{Bucket: b, Drivers: drivers, Targets: targets, Project: project, Cache: a.Dirs.Cache, Programs: a.Dirs.Programs(), Version: a.Version, State: a.Dirs.State, Again: a.commandWithFlag, Near: near, Stdin: a.given, Terminal: a.relay.Open, Passes: r.Passes, Policy: r.Policy, Sockets: a.Sockets, Folders: a.Folders, RemoveFolder: a.RemoveFolder,
		OpenPlace: func(ctx context.Context, url string) (store.Bucket, error) {
			b, _, err := a.OpenBucketOf(ctx, url)
			return b, err
		},
		Images: drover.Images{Region: image.Region(os.Getenv, region), Mirror: mirror.Value, Registry: registry.Value, Pin: a.pinImage, Build: a.buildJobImage, LookUp: a.Registries.LookUp, Entrypoint: a.Registries.Entrypoint}})
	if err == nil {
		a.watchStore(ctx, client)
	}
	return client, err
}

// NamedTargets are the config's named ones.
func (a *App) NamedTargets(c *config.Config) (map[string]job.Target, error) {
	drivers := a.Drivers()
	return c.Targets(func(name string) bool { return drivers[name].Driver != nil })
}

// configuredStoreURL is what was typed or is in the environment, else what the target that is
// meant says, else the config.
func (a *App) configuredStoreURL(c *config.Config, targets map[string]job.Target) (string, error) {
	if a.Settings.Store != "" {
		return a.Settings.Store, nil
	}
	on := a.Settings.On
	if err := c.Fill(&on, "on"); err != nil {
		return "", err
	}
	if targets[on].Store != "" && c.Get("store").From != "DROVER_STORE" {
		return c.Use("targets." + on + ".store")
	}
	return c.Use("store")
}

// storeEndpoint is the server that has the store, where it is none of a folder: then
// only what was typed is wrong, and a setting is for other stores.
func (a *App) storeEndpoint(c *config.Config, url string) (string, error) {
	typed := a.Settings.Endpoint
	switch {
	case isBucket(url):
		err := c.Fill(&typed, "store_endpoint")
		return typed, err
	case typed != "":
		return "", fault.New(fault.Invalid, "Name a bucket too: `--store s3://bucket/prefix`.", "choose store: %s is a folder, and --store-endpoint is where a server has buckets", url)
	}
	return "", nil
}

// FindJob resolves the job that an argument names; "last" when there is none.
func (a *App) FindJob(ctx context.Context, args []string) (*drover.Job, error) {
	c, err := a.OpenClient(ctx)
	if err != nil {
		return nil, err
	}
	ref := "last"
	if len(args) > 0 {
		ref = args[0]
	}
	project, err := a.ProjectName()
	if err != nil {
		return nil, err
	}
	return c.Find(ctx, ref, project)
}

// JobAndStatus resolves the job that an argument names, and its status without items.
func (a *App) JobAndStatus(ctx context.Context, args []string) (*drover.Job, drover.Status, error) {
	j, err := a.FindJob(ctx, args)
	if err != nil {
		return nil, drover.Status{}, err
	}
	s, err := j.BriefStatus(ctx)
	return j, s, err
}

// OpenBucketOf opens the bucket that a URL names, whatever is kept in it.
func (a *App) OpenBucketOf(ctx context.Context, url string) (store.Bucket, string, error) {
	bucket, key, err := drover.SplitURL(url)
	if err != nil {
		return nil, "", err
	}
	b, err := a.OpenPlace(ctx, bucket, a.Settings.Endpoint, func(note string) { a.Note("note: %s", note) })
	return b, key, err
}

// UploadNotesFolder is where large files that are on their way are noted.
func (a *App) UploadNotesFolder() string {
	if a.Dirs.State == "" {
		return ""
	}
	return filepath.Join(a.Dirs.State, "uploads")
}

// FindTask is the one that an argument names, "project/task" or a job of it among
// others; that of the newest job when there is none.
func (a *App) FindTask(ctx context.Context, args []string) (c *drover.Client, project, task string, err error) {
	if c, err = a.OpenClient(ctx); err != nil {
		return c, "", "", err
	}
	if project, err = a.ProjectName(); err != nil {
		return c, "", "", err
	}
	ref := "last"
	if len(args) > 0 {
		ref = args[0]
	}
	j, err := c.Find(ctx, ref, project)
	if err == nil {
		return c, j.Path().Project, j.Path().Task, nil
	}
	if fault.KindOf(err) != fault.Missing || ref == "last" {
		return c, "", "", err
	}
	task = ref // it may have no job yet, only what was put there
	if p, t, ok := strings.Cut(ref, "/"); ok {
		project, task = p, t
	}
	return c, project, task, job.ValidName("task", task)
}

// pinImage looks up the bases of an image that a job wants.
func (a *App) pinImage(ctx context.Context, o drover.ImageOrder) error {
	b := build.New(ctx, a.ProgressOutput(), a.Registries)
	defer b.Close()
	return b.Pin(ctx, o.(*image.Plan)) // package drover makes no other orders
}

// buildJobImage makes the image of a job that is submitted; pinFor has seen its plan.
func (a *App) buildJobImage(ctx context.Context, o drover.ImageOrder) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := build.New(ctx, a.ProgressOutput(), a.Registries)
	defer b.Close()
	p := o.(*image.Plan)
	built, err := b.Build(ctx, build.Order{Plan: p, Push: p.Registry})
	if err == nil && built.Skipped {
		a.Note("image    %s is there: nothing changed since it was built", built.Reference)
	}
	return built.Reference, err
}

// CheckOutput refuses, before anything runs, a folder for outputs that is something
// else, and a bucket that cannot be opened.
func (a *App) CheckOutput(ctx context.Context, output string) error {
	if drover.IsURL(output) {
		_, _, err := a.OpenBucketOf(ctx, output)
		return err
	}
	if info, err := os.Stat(output); output != "" && err == nil && !info.IsDir() {
		return fault.New(fault.Invalid, "Name a folder with `-o`.", "read --output: %q is a file", output)
	}
	return nil
}
