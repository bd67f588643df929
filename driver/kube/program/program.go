// Package program brings the agent's program into a namespace of Kubernetes where no image has it: in
// ConfigMaps, compressed and in parts. Proved by the tests of packages program and kube.
package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
)

// Program is the agent's program. Where no image of it is named, a namespace keeps it in
// ConfigMaps, which all its placements share: one by the name of the digest that says how many
// parts there are, and the parts, which it owns. It is owned by the placements' Jobs, and goes
// with the last of them.
type Program struct {
	Digest string // SHA-256, in hex
	System string // as linux/amd64
	Parts  int    // 0: not known yet
	path   string // on this machine
	// managed is the label of all objects of drover's
	managed label
	// there is true where the namespace has all parts; otherwise packed are they
	there  bool
	packed [][]byte
}

type label struct{ key, value string }

const (
	// partBytes is the size of a part: a ConfigMap holds 1 MiB, its names included.
	partBytes = 1_000_000
	// mostParts is how many parts a program may have, 48 MB compressed.
	mostParts   = 48
	partsAtOnce = 6 // that are sent at a time
	// MostAgents is how many agents may get the program by parts: each node reads all of them
	// from the API server.
	MostAgents = 100
	// Label names the program of a ConfigMap, by the beginning of its digest.
	Label = "drover.run/program"
)

// The keys of the ConfigMap of a program.
const (
	keyParts    = "parts"
	keyComplete = "complete"
)

// OS is the operating system that it is for.
func (p Program) OS() string { os, _, _ := strings.Cut(p.System, "/"); return os }

// Arch is the processor that it is for, in Go's words.
func (p Program) Arch() string { _, arch, _ := strings.Cut(p.System, "/"); return arch }

// name is that of the program's ConfigMap.
func (p Program) name() string { return "drover-program-" + p.Digest[:20] }

// PartName is the name of the ConfigMap of a part, from 0 on.
func (p Program) PartName(k int) string { return fmt.Sprintf("%s-%03d", p.name(), k) }

// partNumber is the name of a part in its ConfigMap and so in the folder of all: their order is
// that of their names.
func partNumber(k int) string { return fmt.Sprintf("part-%03d", k) }

// Find reads a program for a system on this machine. key and value are the label of all objects of
// drover's.
func Find(path, system, key, value string) (Program, error) {
	p := Program{path: path, System: system, managed: label{key, value}}
	f, err := os.Open(path)
	if err != nil {
		return p, fault.Wrap(err, fault.Invalid, "", "start agents")
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return p, fault.Wrap(err, fault.Invalid, "", "start agents: read %s", path)
	}
	p.Digest = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// Look finds out whether the namespace has the program, and its number of parts. It changes nothing.
func (p *Program) Look(ctx context.Context, c *api.Client, namespace string) error {
	var held api.ConfigMap
	err := c.Get(ctx, api.ConfigMaps, namespace, p.name(), &held)
	if err == nil {
		err = p.read(held)
	} else if api.IsCode(err, http.StatusNotFound) {
		err = nil
	}
	if err != nil || p.there {
		return err
	}
	if p.packed, err = compress(p.path, mostParts); err != nil {
		return err
	}
	if p.Parts > 0 && len(p.packed) != p.Parts {
		return fault.New(fault.Invalid, "Delete it: kubectl delete configmap "+p.name()+".", "start agents: the ConfigMap %s speaks of %d parts, and there are %d", p.name(), p.Parts, len(p.packed))
	}
	p.Parts = len(p.packed)
	return nil
}

// read takes over what the program's ConfigMap says.
func (p *Program) read(held api.ConfigMap) error {
	n, err := strconv.Atoi(held.Data[keyParts])
	if err != nil || n < 1 || n > mostParts || held.Metadata.Labels[p.managed.key] != p.managed.value {
		return fault.New(fault.Invalid, "Delete it: kubectl delete configmap "+p.name()+".", "start agents: the ConfigMap %s is not drover's", p.name())
	}
	p.Parts, p.there = n, held.Data[keyComplete] != ""
	return nil
}

// Store makes what is missing of the program, and has it go with the last of its owners, of which
// owner becomes one. An owner comes before what it owns, so that nothing is left of a Start that
// is cut off.
func (p *Program) Store(ctx context.Context, c *api.Client, namespace string, owner api.Owner) error {
	if p.there {
		err := c.AddOwner(ctx, api.ConfigMaps, namespace, p.name(), owner)
		if !api.IsCode(err, http.StatusNotFound) {
			return err
		}
		// The last Job that used the program was removed meanwhile.
		if p.packed, err = compress(p.path, mostParts); err != nil {
			return err
		}
	}
	head := api.ConfigMap{Metadata: api.Meta{Name: p.name(), Labels: p.labels(), OwnerReferences: []api.Owner{owner}}, Data: map[string]string{keyParts: strconv.Itoa(p.Parts)}}
	var held api.ConfigMap
	err := c.Create(ctx, api.ConfigMaps, namespace, head, &held)
	if api.IsCode(err, http.StatusConflict) { // another command was faster, or was cut off
		if err = c.Get(ctx, api.ConfigMaps, namespace, p.name(), &held); err == nil {
			err = p.read(held)
		}
		if err == nil {
			err = c.AddOwner(ctx, api.ConfigMaps, namespace, p.name(), owner)
		}
	}
	if err != nil {
		return err
	}
	of := api.Owner{APIVersion: "v1", Kind: "ConfigMap", Name: p.name(), UID: held.Metadata.UID}
	parts, among := errgroup.WithContext(ctx)
	parts.SetLimit(partsAtOnce) // pods wait for them
	for k, text := range p.packed {
		parts.Go(func() error {
			part := api.ConfigMap{Metadata: api.Meta{Name: p.PartName(k), Labels: p.labels(), OwnerReferences: []api.Owner{of}},
				BinaryData: map[string][]byte{partNumber(k): text}, Immutable: true}
			err := c.Create(among, api.ConfigMaps, namespace, part, nil)
			if api.IsCode(err, http.StatusConflict) {
				return nil
			}
			return err
		})
	}
	if err := parts.Wait(); err != nil {
		return err
	}
	return c.Merge(ctx, api.ConfigMaps, namespace, p.name(), map[string]any{"data": map[string]string{keyComplete: "yes"}}, nil)
}

func (p *Program) labels() map[string]string {
	return map[string]string{p.managed.key: p.managed.value, Label: p.Digest[:20]}
}

// packing is gzip's level: the best one, 9, takes six times as long for 1 % less (drover of 31 MB:
// 4.3 s for 11.8 MB, and 0.7 s for 12.0 MB, on one core).
const packing = 7

// compress gives the parts of the compressed program, of which there may be so many.
func compress(path string, most int) (parts [][]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "start agents")
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, packing)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	for rest := out.Bytes(); len(rest) > 0; rest = rest[min(len(rest), partBytes):] {
		parts = append(parts, rest[:min(len(rest), partBytes)])
	}
	if len(parts) > most {
		return nil, fault.New(fault.Invalid, "Push an image of the agent with `drover image agent REGISTRY`, and name it: `--target-arg agent-image=REF`.", "start agents: the program is too large for a namespace")
	}
	return parts, nil
}
