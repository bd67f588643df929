// Package setup has the verbs that set drover up or check it: init, config, doctor and
// version. Proved by the scripts of these verbs.
package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/store"
)

// Init is drover init.
type Init struct{ *app.App }

// NewInit returns an Init of an invocation.
func NewInit(a *app.App) Init { return Init{a} }

// Command returns the verb's command, with its flags.
func (a Init) Command() *cobra.Command {
	c := &cobra.Command{Use: "init", Short: "Write drover.yaml for this project, with a store that was tried out", Args: app.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.writeProject(cmd.Context()) }}
	a.AddStoreFlags(c)
	return c
}

// newProject is what init writes.
type newProject struct {
	Project  string `yaml:"project"`
	Store    string `yaml:"store,omitempty"`
	Endpoint string `yaml:"store_endpoint,omitempty"`
}

func (a Init) writeProject(ctx context.Context) error {
	project, err := a.ProjectName()
	if err != nil {
		return err
	}
	there := fault.New(fault.Invalid, "Edit it; `drover config` shows its settings.", "write %s: it exists already", config.ProjectFileName)
	if _, err := os.Lstat(config.ProjectFileName); err == nil {
		return there // before any question
	}
	p := newProject{Project: project, Store: a.Settings.Store, Endpoint: a.Settings.Endpoint}
	if p.Store == "" {
		if p.Store, err = a.AskForStore(); err != nil {
			return err
		}
	}
	if p.Store != "" {
		if err := a.probeStore(ctx, p); err != nil {
			return err
		}
		if p.Store, err = a.projectWithOwner(ctx, p); err != nil {
			return err
		}
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(config.ProjectFileName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return there
	}
	if err != nil {
		return fault.Wrap(err, fault.Denied, "", "write %s", config.ProjectFileName)
	}
	defer f.Close()
	body := fmt.Appendf(nil, "# drover's settings for this project; drover config lists all keys.\n%s", text)
	if _, err := f.Write(body); err != nil {
		return err
	}
	path, err := filepath.Abs(config.ProjectFileName)
	if err == nil {
		err = a.Dirs.Confirmations().Confirm(path, body) // what the user has just typed
	}
	if err != nil {
		return err
	}
	words := "project " + project
	if p.Store != "" {
		words += ", store " + p.Store
	}
	a.Note("wrote %s: %s\n  next: drover run train.py", config.ProjectFileName, words)
	return f.Close()
}

// AskForStore asks the user at a terminal for a store, where no setting names one; "" is
// this machine's own folder.
func (a Init) AskForStore() (string, error) {
	c, err := a.ReadConfig()
	if err != nil || c.Get("store").Value != "" {
		return "", err
	}
	from, to, ok := a.AnswerStreams(false)
	if !ok {
		return "", nil
	}
	defer from.Close()
	fmt.Fprintf(to, "Where should drover keep the records of jobs? A job can be continued from any machine that can open its store.\n")
	fmt.Fprintf(to, "  a folder, on this machine or shared; press Enter for %s\n", a.Dirs.Data)
	for _, line := range a.Found() {
		fmt.Fprintf(to, "  %s\n", line)
	}
	fmt.Fprint(to, "store: ")
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		return "", fault.New(fault.Invalid, "Name one: `drover init --store s3://bucket/prefix`.", "choose store: no answer")
	}
	return strings.TrimSpace(line), nil
}

// projectWithOwner returns the store's URL with the account that its bucket belongs to, which
// every request then names: a bucket that another account makes under the same name is
// refused.
func (a Init) projectWithOwner(ctx context.Context, p newProject) (string, error) {
	if a.Owner == nil {
		return p.Store, nil
	}
	account, err := a.Owner(ctx, p.Store, p.Endpoint, func(note string) { a.Note("note: %s", terminal.PlainText(note)) })
	if err != nil || account == "" {
		return p.Store, err
	}
	sep := "?"
	if strings.Contains(p.Store, "?") {
		sep = "&"
	}
	return p.Store + sep + "owner=" + account, nil
}

// probeStore refuses a store that does not keep its rule, before it is a setting.
func (a Init) probeStore(ctx context.Context, p newProject) error {
	a.Settings.Store, a.Settings.Endpoint = p.Store, p.Endpoint
	url, endpoint, err := a.StoreURL()
	if err != nil {
		return err
	}
	b, _, err := a.OpenBucket(ctx, url, endpoint)
	if err != nil {
		return err
	}
	return store.New(b, store.Options{}).Probe(ctx)
}
