// Package kube is the driver for Kubernetes: a placement is one Indexed Job in one namespace, and
// each agent a pod of it. It needs the rights of an ordinary user of the namespace, and nothing
// that is installed in the cluster.
//
// A placement is
//
//	Job drover-JOB-N         its index is the agent's number; its name makes Start idempotent
//	ConfigMap drover-JOB-N   what the pods are told: the order of package pod, and a Stop
//	Secret drover-JOB-N      the job's secrets, and the short-lived credential of the store
//
// and the ConfigMaps of the agent's program, which all placements of a namespace share. The Job
// owns them, so that they go with it; they are made after it, and the pods wait for them.
//
// The Job controller starts an agent again that was lost, or that lost its machine, also when
// no command line is attached. A Stop is a text in the ConfigMap, which process 1 of each pod
// reads: a kubelet does not obey a shorter grace of a pod that is being deleted, so pods are never
// deleted while they run. docs/design/020 says more.
//
// It refuses to know user code and process trees. drivertest proves it, over a fake API server and
// over a real cluster.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Name is the target in the handles of this driver.
const Name = "kube"

// Target is Kubernetes as a target.
var Target = driver.Target{Name: Name, Adopt: pod.Adopt, Beside: pod.Beside, Properties: properties, Policy: policy,
	New: func(f driver.Config) driver.Driver { return New(f.State) }}

func properties(driver.Config) driver.Properties {
	return driver.Properties{Apart: true, Containers: true, Pulls: true, Stores: []string{"s3", "gs"}}
}

// Driver runs agents in pods. The zero value is not usable.
type Driver struct {
	state string // the folder in which it notes the sites where it has started something
	// kubeconfig is the file that names the clusters; "": those that kubectl reads
	kubeconfig string

	mu      sync.Mutex
	clients map[site]*api.Client
	views   map[driver.Handle]view // what Status has seen a moment ago
	watches map[driver.Handle]*watch
	systems map[string]string // of agents, by systemKey
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver, with what it must remember in the folder state. The clusters are those of the
// kubeconfig; New reads nothing and sends nothing.
func New(state string) *Driver {
	return &Driver{state: state, clients: map[site]*api.Client{}, views: map[driver.Handle]view{}, watches: map[driver.Handle]*watch{}, systems: map[string]string{}}
}

// dial gives a client for what a target's detail means now.
func (d *Driver) dial(detail string, ask bool) (*api.Client, site, error) {
	s, err := parseSite(detail)
	if err != nil {
		return nil, s, err
	}
	config, err := readConfig(d.kubeconfig)
	if err != nil {
		return nil, s, err
	}
	if s, err = s.resolve(config); err != nil {
		return nil, s, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.clients[s]; c != nil {
		return c, s, nil
	}
	c, err := s.connect(config, ask)
	if err == nil && ask {
		d.clients[s] = c
	}
	return c, s, err
}

// names says whether h can be a placement of this driver.
func names(h driver.Handle) bool {
	return h.Target == Name && job.ValidID(h.Job) && h.Placement > 0 && h.Detail != ""
}

// handleOf reads the labels of a Job.
func handleOf(s site, labels map[string]string) (h driver.Handle, ok bool) {
	n, err := strconv.Atoi(labels[labelPlacement])
	h = driver.Handle{Target: Name, Detail: s.String(), Job: labels[labelJob], Placement: n}
	return h, err == nil && labels[labelManaged] == managedBy && names(h)
}

// listTime bounds how long List waits for one cluster.
const listTime = 3 * time.Second

// List names the placements in all namespaces where this machine has started something, and in
// the current one. It also takes away placements that are to be removed and have ended. The error
// names each place of the former that did not answer.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	noted := folder.ReadPlaces(d.state)
	var mu sync.Mutex
	var all []driver.Handle
	silent := make([]error, len(noted))
	seen := map[site]bool{}
	var asked sync.WaitGroup
	for i, detail := range append(noted, "") {
		c, s, err := d.dial(detail, false)
		if err != nil && i < len(noted) {
			silent[i] = fault.Wrap(err, fault.KindOf(err), "Delete its line from "+folder.PlacesFile(d.state)+" if the cluster is gone.", "list agents in %s", detail)
		}
		if err != nil || seen[s] {
			continue
		}
		seen[s] = true
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, listTime)
			defer cancel()
			held, err := d.listSite(ctx, c, s)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, held...)
			if err != nil && i < len(noted) {
				silent[i] = err
			}
		})
	}
	asked.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortFunc(all, func(a, b driver.Handle) int {
		return cmp.Or(strings.Compare(a.Detail, b.Detail), strings.Compare(a.Job, b.Job), cmp.Compare(a.Placement, b.Placement))
	})
	return all, errors.Join(silent...)
}

// listSite names the placements in one namespace.
func (d *Driver) listSite(ctx context.Context, c *api.Client, s site) (all []driver.Handle, err error) {
	jobs, err := api.ListAll[api.Job](ctx, c, api.Jobs, s.namespace, ofDrover())
	if err != nil {
		return nil, refused("list agents", s, err)
	}
	for _, j := range jobs {
		h, ok := handleOf(s, j.Metadata.Labels)
		if !ok || !j.Metadata.DeletionTimestamp.IsZero() {
			continue
		}
		if j.Metadata.Labels[labelRemove] != "" && !d.anyAlive(ctx, c, s, h) {
			continue // and statusAt has taken it away
		}
		all = append(all, h)
	}
	return all, nil
}

// anyAlive says whether a placement has an agent that may be working. One that cannot be asked
// has.
func (d *Driver) anyAlive(ctx context.Context, c *api.Client, s site, h driver.Handle) bool {
	members, err := d.statusAt(ctx, c, s, h)
	return err != nil || folder.AnyAlive(members)
}

// ofDrover selects our objects.
func ofDrover(more ...string) map[string][]string {
	return map[string][]string{"labelSelector": {strings.Join(append([]string{labelManaged + "=" + managedBy}, more...), ",")}}
}

// ofPlacement selects the objects of a placement.
func ofPlacement(h driver.Handle) map[string][]string {
	return ofDrover(labelJob+"="+h.Job, fmt.Sprintf("%s=%d", labelPlacement, h.Placement))
}
