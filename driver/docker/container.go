package docker

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
)

// containerName follows from the placement; it is the container's host name too.
func containerName(h driver.Handle, i int) string {
	return fmt.Sprintf("drover-%s-%d-%d", h.Job, h.Placement, i)
}

const (
	// agentMemory is what a container may have beyond what its program was promised: the
	// agent and process 1 use a tenth of a GB. Without it the kernel would end programs that
	// stay within their limit, and the agent could not say why.
	agentMemory = 256 << 20
	// mostProcesses is how many of the machine's process numbers one container may use. A
	// plain kernel has four million: it is enough for any program, and stops a fork bomb.
	mostProcesses = 32768
)

// kept are the capabilities that an agent of root has; a plain user's has none.
//
//   - CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID: --packages installs the image's
//     Linux packages, and so unpacks files of any owner, as another user.
//   - KILL: to end processes of the tree that have changed their user.
var kept = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"}

// caller is the user that the agents run as: the user of this process, so that files which they
// write belong to that user.
type caller struct {
	uid, gid int
	groups   []int
	name     string
}

func whoami() caller {
	c := caller{uid: os.Geteuid(), gid: os.Getegid(), name: os.Getenv("USER")}
	if c.uid != 0 {
		c.groups, _ = os.Getgroups() // the caller's groups may read the same files there
	}
	if c.name == "" {
		c.name = "drover"
	}
	return c
}

// made are the properties that all containers of a placement share.
type made struct {
	request driver.Request
	image   string
	env     []string // the image's
	cache   string   // see Driver.cacheFolder
	network string   // "": docker's default
	info    system.Info
	who     caller
}

// container is the request for one container.
func (d *Driver) container(m made, h driver.Handle, base string, i int, shows []mount.Mount) client.ContainerCreateOptions {
	r := m.request
	r.Run.Binary = program
	line := r.Run.Argv(r.Placement, i)
	dir := agentDir(base, i)
	user, groups, capabilities := m.containerUser()
	no, processes := false, int64(mostProcesses)
	host := &container.HostConfig{
		NetworkMode:   container.NetworkMode(m.network),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled}, // a lost agent is replaced under a new name, and never restarted
		IpcMode:       container.IPCModePrivate,
		CapDrop:       []string{"ALL"},
		CapAdd:        capabilities,
		GroupAdd:      groups,
		SecurityOpt:   []string{"no-new-privileges"},
		Init:          &no, // process 1 is ours, which keeps the time of a Stop
		ShmSize:       m.sharedMemory(),
		Mounts:        shows,
		Resources:     container.Resources{PidsLimit: &processes, NanoCPUs: int64(r.Needs.CPUs * 1e9)},
	}
	if m.daemonHasOption("selinux") {
		// Otherwise the labels of the user's own files would have to be changed.
		host.SecurityOpt = append(host.SecurityOpt, "label=disable")
	}
	if m.daemonHasOption("userns") {
		host.UsernsMode = "host" // or the caller's files on the machine would have no owner in it
	}
	if r.Needs.Memory > 0 {
		host.Memory = r.Needs.Memory + agentMemory
		host.MemorySwap = host.Memory // no swap in addition
	}
	if r.Needs.GPUs > 0 {
		// All: docker does not know which are free. The agent knows, and selects its own.
		host.DeviceRequests = []container.DeviceRequest{{Count: -1, Capabilities: [][]string{{"gpu", "compute", "utility"}}}}
	}
	return client.ContainerCreateOptions{
		Name: containerName(h, i),
		Config: &container.Config{
			Hostname:    containerName(h, i),
			User:        user,
			Image:       m.image,
			Entrypoint:  line[:1],
			Cmd:         line[1:],
			WorkingDir:  "/", // the caller may have no right to the image's own; programs run in their code's folder
			Env:         m.agentEnviron(dir),
			StopSignal:  "SIGTERM",
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the image's is for the program it was made for
			Labels:      d.containerLabels(m, h, i),
		},
		HostConfig: host,
	}
}

// containerLabels are the labels of one container: those by which it is found, and the job's names and tags.
func (d *Driver) containerLabels(m made, h driver.Handle, i int) map[string]string {
	all := map[string]string{}
	for name, value := range m.request.Needs.Labels {
		all[labelTags+name] = value
	}
	all[labelFolder], all[labelJob], all[labelPlacement] = d.dir, h.Job, strconv.Itoa(h.Placement)
	all[labelIndex], all[labelUID] = strconv.Itoa(i), strconv.Itoa(m.who.uid)
	return all
}

// containerUser is the agent's user in the container, and what it may do there.
func (m made) containerUser() (user string, groups, capabilities []string) {
	if m.who.uid != 0 && m.daemonHasOption("rootless") {
		return "0:0", nil, kept // there, root is the caller, and every other user is unmapped
	}
	if m.who.uid == 0 {
		return "0:0", nil, kept
	}
	for _, g := range m.who.groups {
		if g != m.who.gid {
			groups = append(groups, strconv.Itoa(g))
		}
	}
	return fmt.Sprintf("%d:%d", m.who.uid, m.who.gid), groups, nil
}

// daemonHasOption says whether the daemon runs with one of its special options.
func (m made) daemonHasOption(way string) bool {
	return slices.ContainsFunc(m.info.SecurityOptions, func(o string) bool {
		return o == "name="+way || strings.HasPrefix(o, "name="+way+",")
	})
}

// sharedMemory is the size of /dev/shm. Without a request it is that of a Linux machine: half of
// the memory. Files there count as the container's memory.
func (m made) sharedMemory() int64 {
	n := m.request.Needs
	switch {
	case n.Place.Shm > 0:
		return n.Place.Shm
	case n.Memory > 0:
		return max(n.Memory/2, 64<<20)
	}
	return m.info.MemTotal / 2 // 0 where it is not known: then docker's 64 MB
}

// defaultPath is docker's own for images that set none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// agentEnviron is the container's environment beside the image's own. A plain user is not known
// in the image, so that user's home folder is in the agent's folder.
func (m made) agentEnviron(dir string) []string {
	var env []string
	set := func(kv string) {
		name, _, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(env, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		env = append(env, kv)
	}
	path := value(m.env, "PATH")
	if path == "" {
		path = defaultPath
	}
	set("PATH=" + path + ":" + tools)
	if m.who.uid != 0 && value(m.env, "HOME") == "" && !m.daemonHasOption("rootless") {
		set("HOME=" + dir + "/" + homeDir)
	}
	if value(m.env, "USER") == "" {
		set("USER=" + m.who.name)
		set("LOGNAME=" + m.who.name)
	}
	for _, kv := range m.request.Run.Env {
		set(kv)
	}
	set(inherited + "=" + dir)
	return env
}

// value is a variable's; "" when it is not there.
func value(env []string, name string) (v string) {
	for _, kv := range env {
		if k, val, ok := strings.Cut(kv, "="); ok && k == name {
			v = val
		}
	}
	return v
}
