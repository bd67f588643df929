// Package remote keeps the placements of targets that see nothing of the submitting
// machine. Such a placement is a few objects in the job's store, as a placement of this
// machine is a folder (package folder): what was requested, each call of the engine before
// it is made and its answer after it, the order to stop, which process is agent number N,
// and how that agent ended.
//
// Driver makes a target's driver of these records and an Engine, the calls of a control
// plane. A call need not be idempotent, and its answer may be lost: a submission that happens
// twice is harmless, because the first process to create up/N is agent N and the other one
// exits. Supervisor is the part of the same contract on an agent's machine.
//
// The package refuses to know what an engine is and what agents do. drivertest proves it,
// over an engine in memory that submits twice and loses answers (driver/mem) and over a
// store that does the same.
package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Root is the prefix of all placement records in a store. Below it are the requests, and the
// records of each task.
const (
	Root     = "_placements/"
	requests = Root + "requests/"
	ofTasks  = Root + "tasks/"
)

// AgentRights are what the supervisors of a task's agents need; a path without a task means all
// tasks of the project.
func AgentRights(p job.Path) store.Rights {
	own := ofTasks + p.Project + "/"
	if p.Task != "" {
		own += p.Task + "/"
	}
	return store.Rights{Read: []string{requests, own}, Write: []string{own}}
}

// SubmitterRights are what a user needs that starts and stops placements.
func SubmitterRights() store.Rights {
	return store.Rights{Read: []string{Root}, Write: []string{Root}, Delete: []string{Root}}
}

// version is the version of the objects' format.
const version = 1

// The bounds of what is read from a store, which other users may write to.
const (
	maxObject = 256 << 10 // bytes of one object
	maxAgents = 1_000_000
	maxNumber = 1_000_000_000 // of an agent
)

// Records are the placements of one target in one store. Each object is written once.
//
//	_placements/requests/TARGET/JOB-N   Request, with a nonce
//
// and below _placements/tasks/PROJECT/TASK/TARGET/JOB-N/NONCE/
//
//	asked/K      the K-th call for agents, before it is made
//	answered/K   what the engine answered
//	stop/K       the K-th order to stop; each has less grace than the last
//	remove       everything goes once no agent is left
//	up/I         which process of the engine is agent I
//	turn/K       the K-th time that an agent did what one does for all (Turn)
//	present/K/P  that process P took part in turn K (Present)
//	end/I        how agent I ended
//
// The nonce keeps a placement apart from one of the same name that was removed before it. The
// agents of a task write below the prefix of their task alone (AgentRights).
type Records struct {
	store  *store.Store
	target string
}

// NewRecords gives the placements of a target, which is a lower-case name.
func NewRecords(s *store.Store, target string) Records { return Records{s, target} }

// Request says what a placement was asked for, as far as the agents' machines need it. It
// holds no secret.
type Request struct {
	V      int      `json:"v"`
	Nonce  string   `json:"nonce"`
	Detail string   `json:"detail,omitempty"` // as in driver.Handle
	Agents int      `json:"agents"`
	Store  string   `json:"store"`
	Job    string   `json:"job"` // project/task/job
	Env    []string `json:"env,omitempty"`
}

// asked is one call of the engine for agents that is about to be made.
type asked struct {
	V     int    `json:"v"`
	Nonce string `json:"nonce"`
}

// answered is the engine's answer to such a call: the engine's ids, or why it refused.
type answered struct {
	V       int      `json:"v"`
	IDs     []string `json:"ids,omitempty"`
	Refused string   `json:"refused,omitempty"`
}

// Claimant is a process of the engine that wants to be an agent of a placement.
type Claimant struct {
	ID      string `json:"id"`      // of the submission, by the engine
	Index   int    `json:"index"`   // within the submission, from 0; Anywhere
	Attempt int    `json:"attempt"` // 1, and one more each time that the engine starts it again
	// Process is the engine's name of the process, which it never uses again, where Index is Anywhere; else "".
	Process string `json:"process,omitempty"`
}

// Anywhere is the Index of all processes of an engine that keeps a number of them alive, and does not say in the place of
// which lost one it has started another.
const Anywhere = -1

// End is how an agent ended.
type End struct {
	V      int    `json:"v"`
	Code   int    `json:"code"`           // as driver.Member.Code
	Lost   bool   `json:"lost,omitempty"` // it was killed, and not by a Stop
	Reason string `json:"reason"`
	Tail   string `json:"tail,omitempty"` // the end of its own log, up to 4 KiB, when it ended badly
}

// Placement is one placement's records.
type Placement struct {
	Handle  driver.Handle
	Request Request
	store   *store.Store
	prefix  string // ends in a slash
}

// nonce makes an object unique to its writer (store.Store.CreateOnce).
func nonce() string { return rand.Text()[:16] }

func (r Records) requestsPrefix() string { return requests + r.target + "/" }

func (r Records) requestKey(h driver.Handle) string {
	return fmt.Sprintf("%s%s-%d", r.requestsPrefix(), h.Job, h.Placement)
}

// placement gives the records of a request. Its job is a valid path.
func (r Records) placement(h driver.Handle, req Request) *Placement {
	task, _, _ := cutLast(req.Job)
	return &Placement{Handle: h, Request: req, store: r.store, prefix: fmt.Sprintf("%s%s/%s/%s-%d/%s/", ofTasks, task, r.target, h.Job, h.Placement, req.Nonce)}
}

// cutLast cuts a path before its last part.
func cutLast(path string) (before, last string, found bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i+1:], true
}

// names says whether h can be a placement of the target.
func (r Records) names(h driver.Handle) bool {
	return h.Target == r.target && job.ValidID(h.Job) && h.Placement > 0
}

// Create records a request, unless there is a record of the same name: then it gives that
// record, and fresh is false.
func (r Records) Create(ctx context.Context, q driver.Request) (p *Placement, fresh bool, err error) {
	h := driver.Handle{Target: r.target, Detail: q.Needs.Detail, Job: q.Job, Placement: q.Placement}
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case !r.names(h):
		return nil, false, fault.New(fault.Invalid, "", "start agents: job %q, placement %d is not a valid name for them", q.Job, q.Placement)
	case q.Agents < 1 || q.Agents > maxAgents:
		return nil, false, fault.New(fault.Invalid, "", "start agents: %s: %d is not a number of agents", h, q.Agents)
	case !isOf(h, q.Run.Job):
		return nil, false, fault.New(fault.Invalid, "", "start agents: %s: %.80q is not the path of its job", h, q.Run.Job)
	}
	mine := Request{V: version, Nonce: nonce(), Detail: h.Detail, Agents: q.Agents, Store: q.Run.Store, Job: q.Run.Job, Env: q.Run.Env}
	held, fresh, err := createJSON(ctx, r.store, r.requestKey(h), mine)
	if err != nil {
		return nil, false, err
	}
	p, err = r.read(h, held)
	return p, fresh, err
}

// isOf says whether a path is that of a handle's job.
func isOf(h driver.Handle, path string) bool {
	p, ok := job.ParsePath(path)
	return ok && p.Job == h.Job
}

// Open reads the record of h. The error is fs.ErrNotExist where there is none.
func (r Records) Open(ctx context.Context, h driver.Handle) (*Placement, error) {
	p, err := r.OpenNamed(ctx, h.Job, h.Placement)
	if err == nil && p.Handle != h {
		return nil, fs.ErrNotExist // it is in another place
	}
	return p, err
}

// OpenNamed is Open for a process that does not know the Detail of its handle, such as an agent.
func (r Records) OpenNamed(ctx context.Context, jobID string, placement int) (*Placement, error) {
	h := driver.Handle{Target: r.target, Job: jobID, Placement: placement}
	if !r.names(h) {
		return nil, fs.ErrNotExist
	}
	held, err := r.store.GetAtMost(ctx, r.requestKey(h), maxObject)
	if err != nil {
		return nil, err
	}
	return r.read(h, held)
}

// read reads a request.
func (r Records) read(h driver.Handle, body []byte) (*Placement, error) {
	var req Request
	key := r.requestKey(h)
	if err := readJSON(body, key, &req); err != nil {
		return nil, err
	}
	if req.V != version {
		return nil, fault.New(fault.Invalid, "Use the version of drover that wrote it.", "read placement: %s has format %d, and this drover reads %d", key, req.V, version)
	}
	if req.Agents < 1 || req.Agents > maxAgents || len(req.Nonce) < 8 || store.CheckKey(req.Nonce) != nil || strings.Contains(req.Nonce, "/") || !isOf(h, req.Job) {
		return nil, damaged(key)
	}
	h.Detail = req.Detail
	return r.placement(h, req), nil
}

// List names all placements, in the order of their keys. The handle of a damaged request has no
// Detail.
func (r Records) List(ctx context.Context) (all []driver.Handle, err error) {
	prefix := r.requestsPrefix()
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		id, number, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "-")
		h := driver.Handle{Target: r.target, Job: id, Placement: readNumber(number)}
		if r.names(h) {
			all = append(all, h)
		}
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(atOnce)
	for i := range all {
		reads.Go(func() error {
			p, err := r.OpenNamed(ctx, all[i].Job, all[i].Placement)
			switch {
			case err == nil:
				all[i] = p.Handle
			case absent(err):
				all[i].Job = "" // removed meanwhile
			case !isDamage(err):
				return err
			}
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(h driver.Handle) bool { return h.Job == "" }), nil
}

// atOnce is how many requests List reads at once.
const atOnce = 16

// readNumber reads a number of a key; it gives -1 for any other text.
func readNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxNumber || strconv.Itoa(n) != text {
		return -1
	}
	return n
}

// remove deletes the record. It deletes the request last, as List goes by the requests.
func (r Records) remove(ctx context.Context, p *Placement) error {
	if err := p.removeObjects(ctx); err != nil {
		return err
	}
	return r.store.Delete(ctx, r.requestKey(p.Handle))
}

// removeObjects deletes all of the record except the request.
func (p *Placement) removeObjects(ctx context.Context) error {
	for o, err := range p.store.List(ctx, p.prefix) {
		if err == nil {
			err = p.store.Delete(ctx, o.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createJSON creates an object of v, and returns what the key holds then. It refuses a v that
// is too large for any process to read.
func createJSON(ctx context.Context, s *store.Store, key string, v any) (held []byte, mine bool, err error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, false, err
	}
	if len(body) >= maxObject {
		return nil, false, fault.New(fault.Invalid, "Give the job a smaller environment, or fewer agents at once.", "record placement: %s would have %d bytes, and the most is %d", key, len(body), maxObject)
	}
	return s.CreateFixed(ctx, key, append(body, '\n'))
}

// readJSON reads an object. Its error does not quote the object.
func readJSON(body []byte, key string, v any) error {
	if json.Unmarshal(body, v) != nil {
		return damaged(key)
	}
	return nil
}

func damaged(key string) error {
	return fault.New(fault.Invalid, "Delete the object once no agent of it runs.", "read placement: %s is damaged", key)
}

// state is what the record says in addition to the request.
type state struct {
	asked    int              // calls of the engine that were about to be made
	answers  map[int]answered // by the number of the call
	orders   int              // orders to stop
	removing bool
	agents   map[int]Claimant // by number
	ends     map[int]End      // by number
}

// ids are the engine's ids of all submissions that it has answered, in the order of the calls.
func (s state) ids() (all []string) {
	for k := 1; k <= s.asked; k++ {
		all = append(all, s.answers[k].IDs...)
	}
	return all
}

// known are the engine's ids from its answers and from the agents: of a submission that
// happened twice only one answer is known, and agents may belong to the other.
func (s state) known() []string {
	all := s.ids()
	for _, n := range s.numbers() {
		all = union(all, []string{s.agents[n].ID})
	}
	return all
}

// union is a, with the elements of b that are not in it.
func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// refusedAlways says whether the engine has refused every call: then the placement has no
// agents.
func (s state) refusedAlways() bool {
	for k := 1; k <= s.asked; k++ {
		if a, answered := s.answers[k]; !answered || len(a.IDs) > 0 {
			return false
		}
	}
	return true
}

// accepted says whether the engine has taken a submission.
func (s state) accepted() bool { return len(s.ids()) > 0 }

// inFlight says whether the last call for agents has no answer: it is being made, or the
// process that made it has died.
func (s state) inFlight() bool {
	_, ok := s.answers[s.asked]
	return s.asked > 0 && !ok
}

// readers is how many objects of a record are read at once.
const readers = 32

// read lists the record and reads what this process has not read before: objects never
// change.
func (p *Placement) read(ctx context.Context) (s state, err error) {
	s = state{answers: map[int]answered{}, agents: map[int]Claimant{}, ends: map[int]End{}}
	var mu sync.Mutex // guards s until all has ended
	all, gctx := errgroup.WithContext(ctx)
	all.SetLimit(readers)
	for o, err := range p.store.List(ctx, p.prefix) {
		if err != nil {
			return s, errors.Join(err, all.Wait())
		}
		kind, name, _ := strings.Cut(strings.TrimPrefix(o.Key, p.prefix), "/")
		n := readNumber(name)
		s.removing = s.removing || kind == "remove"
		switch {
		case n < 0: // no object of ours
		case kind == "asked":
			s.asked = max(s.asked, n)
		case kind == "stop":
			s.orders = max(s.orders, n)
		case kind == "answered":
			all.Go(func() error { return readInto(gctx, p, o.Key, &mu, s.answers, n) })
		case kind == "up":
			all.Go(func() error { return readInto(gctx, p, o.Key, &mu, s.agents, n) })
		case kind == "end":
			all.Go(func() error { return readInto(gctx, p, o.Key, &mu, s.ends, n) })
		}
	}
	return s, all.Wait()
}

// readInto reads an object into a map.
func readInto[T any](ctx context.Context, p *Placement, key string, mu *sync.Mutex, into map[int]T, n int) error {
	var v T
	err := p.get(ctx, key, &v)
	mu.Lock()
	defer mu.Unlock()
	into[n] = v
	return err
}

func (p *Placement) key(kind string, n int) string { return fmt.Sprintf("%s%s/%d", p.prefix, kind, n) }

// get reads an object that never changes.
func (p *Placement) get(ctx context.Context, key string, v any) error {
	body, err := p.store.Fixed(ctx, key, store.Forever, maxObject)
	if err != nil {
		return err
	}
	return readJSON(body, key, v)
}

// ask records that the K-th call of the engine is about to be made. mine is false when
// another process makes it.
func (p *Placement) ask(ctx context.Context, k int) (mine bool, err error) {
	_, mine, err = createJSON(ctx, p.store, p.key("asked", k), asked{version, nonce()})
	return mine, err
}

// answer records what the engine answered to the K-th call. The first answer stands.
func (p *Placement) answer(ctx context.Context, k int, a answered) error {
	a.V = version
	_, _, err := createJSON(ctx, p.store, p.key("answered", k), a)
	return err
}

// numbers are those of the agents that have claimed one, in order.
func (s state) numbers() []int {
	var all []int
	for n := range s.agents {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// absent says whether an error means that a record does not exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNotExist)
}
