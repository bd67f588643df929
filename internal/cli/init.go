package cli

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
	"github.com/drover-run/drover/store"
)

// initVerb is drover init.
type initVerb struct{ *app }

func newInitVerb(a *app) initVerb { return initVerb{a} }

func (a initVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "init", Short: "Write drover.yaml for this project, with a store that was tried out", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.writeProject(cmd.Context()) }}
	a.addStoreFlags(c)
	return c
}

// newProject is what init writes.
type newProject struct {
	Project  string `yaml:"project"`
	Store    string `yaml:"store,omitempty"`
	Endpoint string `yaml:"store_endpoint,omitempty"`
}

func (a initVerb) writeProject(ctx context.Context) error {
	project, err := a.projectName()
	if err != nil {
		return err
	}
	there := fault.New(fault.Invalid, "Edit it; drover config shows its settings.", "write %s: it exists already", projectFileName)
	if _, err := os.Lstat(projectFileName); err == nil {
		return there // before anybody is asked anything
	}
	p := newProject{Project: project, Store: a.settings.store, Endpoint: a.settings.endpoint}
	if p.Store == "" {
		if p.Store, err = a.askForStore(); err != nil {
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
	f, err := os.OpenFile(projectFileName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return there
	}
	if err != nil {
		return fault.Wrap(err, fault.Denied, "", "write %s", projectFileName)
	}
	defer f.Close()
	body := fmt.Appendf(nil, "# drover's settings for this project; drover config lists all keys.\n%s", text)
	if _, err := f.Write(body); err != nil {
		return err
	}
	path, err := filepath.Abs(projectFileName)
	if err == nil {
		err = a.Dirs.confirmations().confirm(path, body) // what the user has just typed
	}
	if err != nil {
		return err
	}
	words := "project " + project
	if p.Store != "" {
		words += ", store " + p.Store
	}
	a.note("wrote %s: %s\n  next: drover run train.py", projectFileName, words)
	return f.Close()
}

// askForStore asks who sits at a terminal, where no setting names a store already;
// "" is this machine's own folder.
func (a initVerb) askForStore() (string, error) {
	c, err := a.readConfig()
	if err != nil || c.get("store").value != "" {
		return "", err
	}
	from, to, ok := a.answerStreams(false)
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
		return "", fault.New(fault.Invalid, "Name one: drover init --store s3://bucket/prefix.", "choose store: no answer")
	}
	return strings.TrimSpace(line), nil
}

// projectWithOwner returns the store's URL with the account that its bucket belongs to, which
// every request then names: a bucket that another account makes under the same name is
// refused.
func (a initVerb) projectWithOwner(ctx context.Context, p newProject) (string, error) {
	if a.Owner == nil {
		return p.Store, nil
	}
	account, err := a.Owner(ctx, p.Store, p.Endpoint, func(note string) { a.note("note: %s", plainText(note)) })
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
func (a initVerb) probeStore(ctx context.Context, p newProject) error {
	a.settings.store, a.settings.endpoint = p.Store, p.Endpoint
	url, endpoint, err := a.storeURL()
	if err != nil {
		return err
	}
	b, _, err := a.OpenBucket(ctx, url, endpoint)
	if err != nil {
		return err
	}
	return store.New(b, store.Options{}).Probe(ctx)
}
