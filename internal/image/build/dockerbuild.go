package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// buildImage has Docker's classic builder make the plan's image. It removes its own
// containers, also those of a build that fails or is interrupted.
func (d *Docker) buildImage(ctx context.Context, p *image.Plan, to io.Writer) error {
	o := client.ImageBuildOptions{Tags: []string{p.Reference}, Labels: p.Labels(), Remove: true, ForceRemove: true}
	o.Dockerfile = p.Recipe.File
	var extra map[string][]byte
	if one, ok := p.Folder.Find(p.Recipe.File); !p.Recipe.Own || !ok || !one.Mode.IsRegular() {
		var err error
		if o.Dockerfile, extra, err = hidden(p); err != nil {
			return err
		}
	}
	if err := setPlatform(&o.Platforms, p.Platform); err != nil {
		return err
	}
	if err := json.Unmarshal(d.auths(ctx, p.Bases()), &o.AuthConfigs); err != nil {
		return fault.Wrap(err, fault.Bug, "", "build image")
	}
	doing := "build image: " + p.Recipe.From
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() { // ends when the daemon has read all, or the reader is closed
		err := p.Folder.Tar(w, extra)
		w.CloseWithError(err)
		wrote <- err
	}()
	last := &lastLine{to: to}
	got, err := d.cli.ImageBuild(ctx, r, o)
	if err == nil {
		err = follow(ctx, got.Body, last, doing)
		got.Body.Close()
	} else {
		err = daemonFault(ctx, err, doing)
	}
	r.Close()
	if e := <-wrote; e != nil && !errors.Is(e, io.ErrClosedPipe) && ctx.Err() == nil {
		return fault.Wrap(e, fault.KindOf(e), fault.MarkedHint(e), "build image")
	}
	var f *fault.Fault
	if errors.As(err, &f) && f.Kind == fault.Failed && last.line != "" {
		f.Text += "; its last output: " + last.line
	}
	return err
}

// hidden gives the builder a Dockerfile that is not the folder's own, in a place
// that COPY does not see: named in .dockerignore, which the builder takes out
// together with it unless the folder's own .dockerignore is to be copied.
func hidden(p *image.Plan) (name string, extra map[string][]byte, err error) {
	name = ".dockerfile." + p.Digest[:20]
	ignore := []byte(".dockerignore\n")
	if one, ok := p.Folder.Find(".dockerignore"); ok && one.Mode.IsRegular() {
		r, err := p.Folder.Open(one)
		if err != nil {
			return "", nil, err
		}
		defer r.Close()
		if ignore, err = io.ReadAll(r); err != nil {
			return "", nil, fault.Wrap(err, fault.Invalid, "", "read .dockerignore")
		}
		ignore = append(bytes.TrimRight(ignore, "\n"), '\n')
	}
	ignore = append(ignore, name...)
	return name, map[string][]byte{name: []byte(p.Recipe.Text), ".dockerignore": append(ignore, '\n')}, nil
}

// auths are the logins for the registries of the bases, as JSON.
func (d *Docker) auths(ctx context.Context, bases []string) []byte {
	list := map[string]map[string]string{}
	for _, base := range bases {
		r, err := name.ParseReference(base)
		if err != nil {
			continue
		}
		c, ok := d.at.login(ctx, r.Context())
		if !ok {
			continue
		}
		host := r.Context().RegistryStr()
		if host == name.DefaultRegistry {
			host = "https://index.docker.io/v1/" // the builder looks for this spelling
		}
		list[host] = loginFields(c, host)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return []byte("{}") // strings always can be
	}
	return b
}

// setPlatform fills one of the client's lists of platforms.
func setPlatform(list any, words string) error {
	if words == "" {
		return nil
	}
	p, err := v1.ParsePlatform(words)
	if err == nil {
		var b []byte
		if b, err = json.Marshal([]*v1.Platform{p}); err == nil {
			err = json.Unmarshal(b, list)
		}
	}
	if err != nil {
		return fault.New(fault.Invalid, "Use one such as linux/amd64.", "read platform: %q", words)
	}
	return nil
}

// lastLine passes the builder's output on, and keeps the last line that a
// command printed.
type lastLine struct {
	to   io.Writer
	line string
}

func (l *lastLine) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--->") && !strings.HasPrefix(line, "Step ") && !strings.HasPrefix(line, "Removing intermediate") {
			l.line = line
		}
	}
	return fmt.Fprintf(l.to, "%s", b)
}
