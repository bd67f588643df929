package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

func (a *app) initCommand() *cobra.Command {
	c := &cobra.Command{Use: "init", Short: "Write drover.yaml for this project, with a store that was tried out", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.writeProject(cmd.Context()) }}
	a.storeFlags(c)
	return c
}

// projectFile is what init writes.
type projectFile struct {
	Project  string `yaml:"project"`
	Store    string `yaml:"store,omitempty"`
	Endpoint string `yaml:"store_endpoint,omitempty"`
}

func (a *app) writeProject(ctx context.Context) error {
	project, err := a.project()
	if err != nil {
		return err
	}
	there := fault.New(fault.Invalid, "Edit it; drover config shows what it says.", "write %s: it is there already", projectFileName)
	if _, err := os.Lstat(projectFileName); err == nil {
		return there // before anybody is asked anything
	}
	p := projectFile{Project: project, Store: a.settings.store, Endpoint: a.settings.endpoint}
	if p.Store == "" {
		if p.Store, err = a.askForStore(); err != nil {
			return err
		}
	}
	if p.Store != "" {
		if err := a.tryStore(ctx, p); err != nil {
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
	if _, err := fmt.Fprintf(f, "# drover's settings for this project; drover config lists all keys.\n%s", text); err != nil {
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
func (a *app) askForStore() (string, error) {
	c, err := a.config()
	if err != nil || c.get("store").value != "" {
		return "", err
	}
	from, to, ok := a.asks(false)
	if !ok {
		return "", nil
	}
	defer from.Close()
	fmt.Fprintf(to, "Where are facts to be kept? A job can be gone on with wherever its store can be opened.\n")
	fmt.Fprintf(to, "  a folder, on this machine or shared; Enter for %s\n", a.Dirs.Data)
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

// tryStore refuses a store that does not keep its rule, before it is a setting.
func (a *app) tryStore(ctx context.Context, p projectFile) error {
	a.settings.store, a.settings.endpoint = p.Store, p.Endpoint
	url, endpoint, err := a.place()
	if err != nil {
		return err
	}
	b, _, err := a.OpenBucket(ctx, url, endpoint)
	if err != nil {
		return err
	}
	return store.New(b, store.Options{}).Probe(ctx)
}
