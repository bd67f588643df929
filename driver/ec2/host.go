package ec2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/metadata"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// stateFolder is where an agent has its own files.
const stateFolder = "/var/lib/drover/agent"

// containerName is the name of the one container of a machine.
const containerName = "drover-agent"

// What tests change.
var (
	orderLook  time.Duration // how often orders to stop are read; 0: as package remote has it
	noticeLook = metadata.Look
	aliveLook  = 10 * time.Minute // how often the machine's own end is moved on
)

// adopt makes a machine's first process the agent's supervisor, and the process below it the agent.
func adopt(p driver.AgentProcess) (*driver.Allocation, error) {
	name, ours := os.LookupEnv(variableGroup)
	if !ours {
		return nil, nil
	}
	m := remote.Machine{Look: orderLook, Given: driver.Allocation{Root: "/", State: stateFolder, Hosts: "/etc/hosts", Shared: &driver.Sharing{}}}
	if os.Getenv(variableImage) != "" {
		m.Given.OOMKills = func() int64 { return folder.OOMKills("/sys/fs/cgroup") }
	}
	if remote.Supervised() {
		if secrets := os.Getenv(variableSecret); secrets != "" {
			var err error
			if m.Given.Secrets, err = secret.ReadHere(context.Background(), secrets); err != nil {
				return nil, err
			}
		}
	} else {
		h, err := newHost(context.Background(), name)
		if err != nil {
			return nil, err
		}
		m.Claimant = remote.Claimant{ID: name, Index: remote.Anywhere, Attempt: 1, Process: h.id}
		m.Notices, m.Command, m.Beside, m.Leave = h.notices, h.command, h.keepAlive, h.leave
	}
	a, err := remote.Adopt(Name, p, m)
	for _, v := range []string{variableGroup, variableImage, variableGPUs, variableShm, variableUntil, variableNodes, variableSecret} {
		os.Unsetenv(v) // a process below this one must not take them for its own
	}
	return a, err
}

// host is a machine as its own process sees it.
type host struct {
	client *client
	group  string
	id     string // the machine's
	nodes  int    // how many machines work together; below 2: each works by itself
}

// newHost asks the machine which it is.
func newHost(ctx context.Context, group string) (*host, error) {
	id, err := metadata.Read(ctx, metadata.New(), "instance-id")
	if err != nil || len(id) == 0 {
		return nil, fault.New(fault.Invalid, "Unset "+variableGroup+".", "adopt agent: the metadata service does not say which machine this is: %v", err)
	}
	account, err := amazon.Open(ctx, amazon.Options{})
	if err != nil {
		return nil, err
	}
	nodes, _ := strconv.Atoi(os.Getenv(variableNodes)) // absent: 0
	return &host{newClient(account, amazon.Patience, 0), group, string(id), nodes}, nil
}

// notices are what AWS announces.
func (h *host) notices(ctx context.Context) <-chan driver.Notice {
	all := make(chan driver.Notice)
	go metadata.Watch(ctx, metadata.New(), noticeLook, func(a metadata.Announcement) { all <- driver.Notice{Why: a.Why, Left: a.Left} }, metadata.Spot, metadata.Group)
	return all
}

// command has the agent run in a container, where there is an image: with the machine's network, as root, and nothing asked of the image.
func (h *host) command(c remote.Command) (remote.Command, error) {
	image := os.Getenv(variableImage)
	if image == "" {
		return c, nil
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return c, fault.New(fault.Invalid, "Use `--on ec2/ami`, or an AMI with Docker.", "start agent: the machine's AMI has no Docker")
	}
	login, err := h.logIn(c.Folder, image)
	if err != nil {
		return c, err
	}
	_ = exec.Command(docker, "rm", "-f", containerName).Run() // of a process before this one, if there was one
	binary := c.Argv[0]
	argv := []string{docker, "run", "--rm", "--name", containerName, "--network", "host", "--init", "--user", "0", "--log-driver", "none", "--entrypoint", binary,
		"--volume", binary + ":" + binary + ":ro", "--volume", c.Folder + ":" + c.Folder}
	for _, v := range append(c.Env, ownVariables()...) {
		name, _, _ := strings.Cut(v, "=")
		argv = append(argv, "--env", name) // the value is in the environment of docker's own process
	}
	if n, _ := strconv.Atoi(os.Getenv(variableGPUs)); n > 0 {
		argv = append(argv, "--gpus", "all")
	}
	if n, _ := strconv.ParseInt(os.Getenv(variableShm), 10, 64); n > 0 {
		argv = append(argv, "--shm-size", fmt.Sprint(n))
	}
	c.Argv = append(append(argv, image), c.Argv[1:]...)
	c.Env = append(c.Env, login...)
	c.Kill = func() { _ = exec.Command(docker, "rm", "-f", containerName).Run() } // what is not there is gone
	return c, nil
}

// ownVariables are those of this process that the agent needs in a container.
func ownVariables() (all []string) {
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "DROVER_EC2_") || strings.HasPrefix(v, "AWS_") {
			all = append(all, v)
		}
	}
	return all
}

// logIn makes the machine's role the user of the image's registry, where that is Amazon's; it gives docker's variables for it.
func (h *host) logIn(dir, image string) (env []string, err error) {
	name, _, _ := strings.Cut(image, "/")
	all := &registry.Registries{Open: func(context.Context, string) (*amazon.Account, error) { return h.client.send.Account, nil }}
	if !all.Has(name) {
		return nil, nil
	}
	user, password, err := all.Login(context.Background(), name)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"auths": map[string]any{name: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}}})
	if err != nil {
		return nil, err
	}
	return []string{"DOCKER_CONFIG=" + dir}, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

// keepAlive moves the end of the machine on for as long as its process works, and, with the other machines in turn, that of the
// group's machines.
func (h *host) keepAlive(ctx context.Context, p *remote.Placement) {
	tick := time.NewTicker(aliveLook)
	defer tick.Stop()
	for {
		_ = run("shutdown", "-h", fmt.Sprintf("+%d", int((2*aliveLook+time.Minute)/time.Minute))) // where it fails, the group's end is later
		// a store that does not answer must not keep this machine from its next look
		step, end := context.WithTimeout(ctx, aliveLook/2)
		h.moveEnd(step, p, time.Now())
		end()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// moveEnd moves the end of the group's machines on, unless another machine has in this third of an hour. Nodes that wait for
// missing ones do not: they cost what they cost, and where no command follows the job the end comes.
func (h *host) moveEnd(ctx context.Context, p *remote.Placement, now time.Time) {
	k := int(now.Unix() / int64(moveTime/time.Second))
	if h.nodes > 1 {
		if n, err := p.Present(ctx, k, h.id); err != nil || n < h.nodes {
			return // a later look comes before the end
		}
	}
	mine, err := p.Turn(ctx, k)
	if err != nil || !mine {
		return // as above
	}
	if err := h.client.EndAt(ctx, h.group, later(now.Add(aliveTime), os.Getenv(variableUntil))); err != nil {
		fmt.Fprintln(os.Stderr, "drover:", err)
	}
}

// leave has Auto Scaling end the machine with its agent. An agent that was told to go leaves its place to another machine. Where Auto Scaling does
// not answer, the unit shuts the machine down: it does when this process has ended.
func (h *host) leave(code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.client.EndMachine(ctx, h.id, code != fault.ExitLater); err != nil {
		fmt.Fprintln(os.Stderr, "drover:", err)
	}
}

// run runs a program of the machine's and waits for it.
func run(name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	return exec.Command(path, args...).Run()
}
