package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// Start makes the placement durable and has Slurm accept its jobs.
//
// The Start that has locked the folder does the work; another one waits for it. Before it submits
// it looks whether Slurm has a job of that name, and after a lost answer it looks again; it notes
// what sbatch answered. If a job was submitted twice all the same, the second one does nothing: an
// agent's supervisor takes the agent's number, which only one can, before it starts the agent.
//
// If Slurm refuses the first array, nothing is kept. If it refuses a later one, as when only so
// many jobs are allowed, the agents of that one have ended, with the reason.
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	h, dir, err := folder.Begin(ctx, d.dir, Name, r)
	if err != nil {
		return driver.Handle{}, err
	}
	if err := folder.Runnable(r.Run.Binary); err != nil {
		return driver.Handle{}, err
	}
	p := plan{request: r, handle: h, folder: dir}
	if err := d.prepareStart(ctx, &p); err != nil {
		return driver.Handle{}, err
	}
	lock, err := folder.Claim(ctx, dir, records.Hold, func() error { return records.Publish(dir, p.facts) })
	if err != nil {
		return driver.Handle{}, d.wrapFileError("start agents", err)
	}
	defer lock.Close()
	if p.facts, err = records.ReadRequest(dir); err != nil {
		return driver.Handle{}, d.wrapFileError("start agents", err)
	}
	if err := d.submitJobs(ctx, p); err != nil {
		return driver.Handle{}, err
	}
	d.forgetStatus(h)
	return h, nil
}

// plan is a Start that was checked.
type plan struct {
	request driver.Request
	handle  driver.Handle
	folder  string
	facts   records.Request
	secrets []byte   // JSON; nil: none
	pass    []byte   // nil: none
	match   []string // options that restrict it to nodes that match
}

// prepareStart refuses what can be seen from here to be wrong, before anything is made.
func (d *Driver) prepareStart(ctx context.Context, p *plan) error {
	p.request.Needs.Args = longArgs(p.request.Needs.Args)
	r := p.request
	if err := checkArgs(r.Needs.Args); err != nil {
		return err
	}
	if strings.ContainsAny(d.dir, "\n\\%") {
		return fault.New(fault.Invalid, "Name another folder with XDG_STATE_HOME.", "start agents: Slurm cannot write into %q", d.dir)
	}
	c, err := d.configuration(ctx)
	if err != nil {
		return said("start agents", err)
	}
	p.facts = records.Request{Agents: r.Agents, Gang: r.Agents > 1 && r.Needs.Place.Nodes > 1, Arrays: arrays(r, c.MaxArray), Started: time.Now().UTC()}
	p.secrets, p.pass, err = folder.Sealed(ctx, r.Run)
	return err
}

// arrays are the sizes of the arrays that a placement takes.
func arrays(r driver.Request, most int) (sizes []int) {
	if r.Needs.Place.Nodes > 1 {
		return []int{r.Agents}
	}
	for left := r.Agents; left > 0; left -= most {
		sizes = append(sizes, min(left, most))
	}
	return sizes
}

// submitJobs submits the arrays that Slurm has not accepted yet; its caller holds the folder.
func (d *Driver) submitJobs(ctx context.Context, p plan) error {
	const doing = "start agents"
	if folder.Exists(records.JobFile(p.folder, len(p.facts.Arrays)-1)) {
		if p.pass == nil {
			return nil
		}
		return d.wrapFileError(doing, folder.Replace(records.PassFile(p.folder), p.pass)) // a later Start renews it
	}
	fresh := !folder.Exists(records.AskedFile(p.folder))
	err := d.restrictNodes(ctx, &p)
	if err == nil {
		err = d.writeAgentFiles(p)
	}
	if err != nil {
		if fresh {
			_ = folder.TakeAway(p.folder) // nothing of it was ever submitted
		}
		return d.wrapFileError(doing, err)
	}
	if ctx.Err() != nil {
		if fresh {
			_ = folder.TakeAway(p.folder)
		}
		return context.Cause(ctx)
	}
	for k := range p.facts.Arrays {
		if folder.Exists(records.JobFile(p.folder, k)) {
			continue
		}
		if _, stopped := folder.ReadWord(records.StopFile(p.folder)); stopped {
			if err := d.recordJobID(p.folder, k, records.Submitted{Refused: "stopped"}); err != nil {
				return err
			}
			continue
		}
		err := d.submitArray(ctx, p, k)
		if err == nil {
			continue
		}
		var no *commands.Refusal
		if k == 0 && errors.As(err, &no) {
			_ = folder.TakeAway(p.folder)
		}
		if k == 0 || !errors.As(err, &no) {
			return said(doing, err)
		}
		f := said(doing, err)
		if err := d.recordJobID(p.folder, k, records.Submitted{Refused: commands.Words(no.Text), Hint: fault.Hint(f)}); err != nil {
			return err
		}
	}
	return nil
}

// lookFor is how long Slurm is asked about a job with a submission that it has not answered,
// after pauses that grow from the first.
const lookFor, firstLook = 8 * time.Second, 250 * time.Millisecond

// submitArray looks for an earlier job first, submits, and looks again if it gets no clear answer.
func (d *Driver) submitArray(ctx context.Context, p plan, k int) error {
	name := nameOf(p.handle, k)
	if folder.Exists(records.AskedFile(p.folder)) {
		if id, err := d.findEarlierJob(ctx, p, k); err != nil || id > 0 {
			return errors.Join(err, d.noteFound(p.folder, k, id))
		}
	}
	if err := folder.WriteJSON(records.AskedFile(p.folder), name); err != nil {
		return d.wrapFileError("start agents", err)
	}
	out, err := d.runCommand(ctx, "sbatch", sbatchArgs(p, k)...)
	var lost *commands.Silent
	if errors.As(err, &lost) {
		for begun, pause := time.Now(), firstLook; ; pause *= 2 { // it may be on its way
			if id, ferr := d.findEarlierJob(ctx, p, k); ferr == nil && id > 0 {
				return d.noteFound(p.folder, k, id)
			}
			if time.Since(begun)+pause > lookFor || folder.Pause(ctx, pause) != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	id := parseSubmitted(out)
	if id == 0 {
		return fault.New(fault.Bug, "`squeue --me` says whether it has the job; sbatch must print its number.", "start agents: sbatch answered %q", records.FirstLine(out))
	}
	return d.noteFound(p.folder, k, id)
}

// parseSubmitted reads the job's id from what sbatch printed: 12, or 12;cluster, on a line of its
// own. It takes the last such line, as a site may print more; 0: there is none.
func parseSubmitted(out string) (id int) {
	for line := range strings.Lines(out) {
		text, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			id = n
		}
	}
	return id
}

func (d *Driver) noteFound(dir string, k, id int) error {
	if id == 0 {
		return nil
	}
	return d.recordJobID(dir, k, records.Submitted{ID: id})
}

func (d *Driver) recordJobID(dir string, k int, s records.Submitted) error {
	if err := folder.WriteJSON(records.JobFile(dir, k), s); err != nil {
		return d.wrapFileError("start agents", err)
	}
	return d.wrapFileError("start agents", folder.SyncFolder(dir))
}

// findEarlierJob looks for a job that an earlier process may have submitted: in Slurm's queue, in its
// accounting, and in the notes of its agents. Of several it takes the oldest.
func (d *Driver) findEarlierJob(ctx context.Context, p plan, k int) (id int, err error) {
	rows, err := d.queryJobs(ctx, "--name", nameOf(p.handle, k))
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.Name == nameOf(p.handle, k) && (id == 0 || r.Slurm < id) {
			id = r.Slurm
		}
	}
	if id > 0 {
		return id, nil
	}
	for i := range p.facts.Arrays[k] {
		if n := records.Heard(p.folder, p.facts.FirstAgentOf(k)+i); n.Up != nil {
			return n.Up.Slurm, nil
		}
	}
	return 0, nil
}

// writeAgentFiles writes the files that agents need, and the script for sbatch.
func (d *Driver) writeAgentFiles(p plan) error {
	program, err := d.installProgram(p.request.Run.Binary)
	if err != nil {
		return err
	}
	o := records.Orders{Binary: program, Store: p.request.Run.Store, Job: p.request.Run.Job, Placement: p.request.Placement,
		Agents: p.facts.Agents, Gang: p.facts.Gang, Env: agentEnv(os.Environ(), p.request.Run)}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	files := []struct {
		path string
		text []byte
	}{{records.OrdersFile(p.folder), text}, {records.SecretsFile(p.folder), p.secrets}, {records.PassFile(p.folder), p.pass}}
	for k := range p.facts.Arrays {
		files = append(files, struct {
			path string
			text []byte
		}{records.ScriptFile(p.folder, k), script(p, k, program)})
	}
	for _, f := range files {
		if f.text == nil {
			continue
		}
		if err := folder.Replace(f.path, f.text); err != nil {
			return err
		}
	}
	return nil
}

// script is what Slurm runs: an agent's supervisor replaces the shell, so that signals reach it.
func script(p plan, k int, program string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\n# drover: job %s, placement %d\n%s=%s %s=%d exec %s agent\n",
		p.request.Job, p.request.Placement, node.EnvFolder, quoted(p.folder), node.EnvFrom, p.facts.FirstAgentOf(k), quoted(program))
}

// quoted is a word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// programs is the folder in dir with the programs that agents are started as.
const programs = ".bin"

// installProgram copies this machine's program to where nodes see it, by its content, and
// says where.
func (d *Driver) installProgram(binary string) (string, error) {
	in, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	place := func() string { return filepath.Join(d.dir, programs, hex.EncodeToString(sum.Sum(nil))[:32]) }
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	path := place()
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		now := time.Now()
		return path, os.Chtimes(path, now, now) // or it would count as unused
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".copy-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	sum.Reset() // the file may have been replaced since: the name follows from the copied bytes
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	if err = errors.Join(err, out.Chmod(0o700), out.Sync(), out.Close()); err != nil {
		return "", err
	}
	path = place()
	return path, os.Rename(out.Name(), path)
}

// unusedFor is how long a program is kept that no placement uses.
const unusedFor = 7 * 24 * time.Hour

// dropPrograms removes unused programs. Call it only when no placement exists.
func (d *Driver) dropPrograms() {
	all, err := os.ReadDir(filepath.Join(d.dir, programs))
	if err != nil {
		return
	}
	for _, e := range all {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unusedFor {
			os.Remove(filepath.Join(d.dir, programs, e.Name()))
		}
	}
}

// agentEnv are the variables that an agent gets from here, beside those that Slurm sets: those that
// say where programs and packages are. They are handed over in a file that only its owner can read,
// and not to Slurm, which stores what it gets.
func agentEnv(environ []string, b driver.Boot) (env []string) {
	own := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH",
		"MANPATH", "LOADEDMODULES", "_LMFILES_", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CUDA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE",
		"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" {
			for _, tool := range b.Tools {
				value += ":" + filepath.Dir(tool)
			}
			kv = name + "=" + value
		}
		if slices.Contains(own, name) || slices.ContainsFunc([]string{"LC_", "CONDA_", "MAMBA_", "MODULE", "LMOD_", "__LMOD", "_ModuleTable"},
			func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, kv)
		}
	}
	return append(env, b.Env...)
}
