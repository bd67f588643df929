package ec2test

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// machine is an instance. All of it is under Server.mu.
type machine struct {
	s        *Server
	id       string
	group    *group
	template url.Values
	kind     string // its type
	zone     string
	spot     bool
	state    string
	why      string // code of the end
	words    string
	launched time.Time
	ended    time.Time
	dir      string
	process  *os.Process // leader of its group; nil: it runs nothing
	takenAt  time.Time   // that of a notice; zero: there is none
	lists    int         // of machines that were given since
}

// The types that the region has: with their architecture, cores, memory in MiB, GPUs and zones.
var types = []struct {
	name, arch   string
	cpus, memory int
	gpus         int
	zones        string
}{
	{"m5.large", "x86_64", 2, 8192, 0, "abc"}, {"m6i.large", "x86_64", 2, 8192, 0, "abc"}, {"m6a.large", "x86_64", 2, 8192, 0, "abc"}, {"c5.large", "x86_64", 2, 4096, 0, "abc"}, {"c6i.large", "x86_64", 2, 4096, 0, "ab"},
	{"c6a.large", "x86_64", 2, 4096, 0, "abc"}, {"r5.large", "x86_64", 2, 16384, 0, "abc"}, {"r6i.large", "x86_64", 2, 16384, 0, "bc"}, {"m5.xlarge", "x86_64", 4, 16384, 0, "abc"}, {"c5.xlarge", "x86_64", 4, 8192, 0, "abc"},
	{"m5.2xlarge", "x86_64", 8, 32768, 0, "abc"}, {"m7g.large", "arm64", 2, 8192, 0, "abc"}, {"p3.2xlarge", "x86_64", 8, 62464, 1, "a"}, {"p3.8xlarge", "x86_64", 32, 249856, 4, "a"}, {"g5.xlarge", "x86_64", 4, 16384, 1, "ab"}, {"g5g.xlarge", "arm64", 4, 8192, 1, "ab"},
}

// zone is a zone by its letter.
func zone(letter string) string { return Region + letter }

// subnetZone is the zone of a subnet: its last letter, or its number in a stack.
func subnetZone(id string) (string, bool) {
	if _, number, ofStack := strings.Cut(id, "-Subnet"); ofStack && number != "" {
		return zone(string("abc"[(number[0]-'1')%3])), true
	}
	last := id[len(id)-1:]
	return zone(last), strings.HasPrefix(id, "subnet-") && strings.Contains("abc", last)
}

func describeSubnets(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<subnetSet>")
	for _, id := range list(form, "SubnetId", "") {
		at, known := subnetZone(id)
		if !known {
			return "", refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
		free := "250"
		if strings.Contains(id, "full") {
			free = "0"
		}
		public := fmt.Sprint(!strings.Contains(id, "private"))
		b.WriteString("<item>" + element("subnetId", id) + element("availabilityZone", at) + element("availableIpAddressCount", free) + element("vpcId", "vpc-0a") + element("mapPublicIpOnLaunch", public) + "</item>")
	}
	return b.String() + "</subnetSet>", nil
}

// describeRoutes gives the tables of the one network: that of subnet-0darka has no way out.
func describeRoutes(_ *Server, form url.Values) (string, error) {
	if form.Get("Filter.1.Value.1") != "vpc-0a" {
		return "", refuse("InvalidParameterValue", "The filter has no value")
	}
	local := "<item>" + element("destinationCidrBlock", "10.0.0.0/16") + element("gatewayId", "local") + element("state", "active") + "</item>"
	out := "<item>" + element("destinationCidrBlock", "0.0.0.0/0") + element("gatewayId", "igw-0a") + element("state", "active") + "</item>"
	return "<routeTableSet><item>" + element("vpcId", "vpc-0a") + "<associationSet><item>" + element("main", "true") + "</item></associationSet><routeSet>" + local + out + "</routeSet></item><item>" +
		element("vpcId", "vpc-0a") + "<associationSet><item>" + element("subnetId", "subnet-0darka") + element("main", "false") + "</item></associationSet><routeSet>" + local + "</routeSet></item></routeTableSet>", nil
}

func describeImages(s *Server, form url.Values) (string, error) {
	id := form.Get("ImageId.1")
	if strings.HasSuffix(id, "dead") {
		return "", refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	arch := "x86_64"
	if strings.HasSuffix(id, "a64") {
		arch = "arm64"
	}
	return "<imagesSet><item>" + element("imageId", id) + element("architecture", arch) + element("rootDeviceName", "/dev/sda1") + "<blockDeviceMapping><item>" + element("deviceName", "/dev/sda1") + "<ebs>" + element("volumeSize", "60") + "</ebs></item></blockDeviceMapping></item></imagesSet>", nil
}

func describeOfferings(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<instanceTypeOfferingSet>")
	for _, t := range types {
		for _, letter := range t.zones {
			b.WriteString("<item>" + element("instanceType", t.name) + element("locationType", form.Get("LocationType")) + element("location", zone(string(letter))) + "</item>")
		}
	}
	return b.String() + "</instanceTypeOfferingSet>", nil
}

// describeTypes gives all types, on two pages.
func describeTypes(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<instanceTypeSet>")
	page, next := types[:8], element("nextToken", "more")
	if form.Get("NextToken") == "more" {
		page, next = types[8:], ""
	}
	for _, t := range page {
		gpus := ""
		if t.gpus > 0 {
			gpus = "<gpuInfo><gpus><item>" + element("name", "V100") + element("manufacturer", "NVIDIA") + element("count", fmt.Sprint(t.gpus)) + "<memoryInfo>" + element("sizeInMiB", "16384") + "</memoryInfo></item></gpus></gpuInfo>"
		}
		b.WriteString("<item>" + element("instanceType", t.name) + element("currentGeneration", "true") + element("bareMetal", "false") + element("burstablePerformanceSupported", "false") +
			"<supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses><processorInfo><supportedArchitectures><item>" + t.arch + "</item></supportedArchitectures></processorInfo><vCpuInfo>" +
			element("defaultVCpus", fmt.Sprint(t.cpus)) + "</vCpuInfo><memoryInfo>" + element("sizeInMiB", fmt.Sprint(t.memory)) + "</memoryInfo><networkInfo>" + element("networkPerformance", "Up to 10 Gigabit") + "</networkInfo>" + gpus + "</item>")
	}
	return b.String() + "</instanceTypeSet>" + next, nil
}

func describePrices(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<spotPriceHistorySet>")
	for i, t := range list(form, "InstanceType", "") {
		for j, letter := range "abc" {
			b.WriteString("<item>" + element("instanceType", t) + element("availabilityZone", zone(string(letter))) + element("spotPrice", fmt.Sprintf("0.0%d%d0000", 3+i%5, j)) + "</item>")
		}
	}
	return b.String() + "</spotPriceHistorySet>", nil
}

// instanceTag begins the parameters of a template for the tags of machines.
const instanceTag = "LaunchTemplateData.TagSpecification.1.Tag."

func (s *Server) machine(id string) *machine {
	for _, m := range s.machines {
		if m.id == id {
			return m
		}
	}
	return nil
}

func describeInstances(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<reservationSet>")
	for _, m := range s.machines {
		m.lists++
		if m.lists <= s.knobs.late {
			continue
		}
		tags := map[string]string{"aws:autoscaling:groupName": m.group.name}
		for i := 1; m.template.Has(fmt.Sprintf(instanceTag+"%d.Key", i)); i++ {
			tags[m.template.Get(fmt.Sprintf(instanceTag+"%d.Key", i))] = m.template.Get(fmt.Sprintf(instanceTag+"%d.Value", i))
		}
		for _, key := range m.group.atLaunch {
			tags[key] = m.group.tags[key]
		}
		if m.state == "terminated" && m.lists%2 == 0 { // its tags go some time after its end
			tags = nil
		}
		of := func(name string) string {
			switch name {
			case "instance-id":
				return m.id
			case "instance-state-name":
				return m.state
			}
			return tags[strings.TrimPrefix(name, "tag:")]
		}
		if !matches(form, of) {
			continue
		}
		bought := ""
		if m.spot {
			bought = element("instanceLifecycle", "spot")
		}
		b.WriteString("<item><instancesSet><item>" + element("instanceId", m.id) + element("instanceType", m.kind) + "<instanceState>" + element("name", m.state) + "</instanceState><placement>" + element("availabilityZone", m.zone) + "</placement>" +
			bought + element("launchTime", m.launched.UTC().Format(time.RFC3339)) + "<stateReason>" + element("code", m.why) + element("message", m.words) + "</stateReason>" + tagSet(tags) + "</item></instancesSet></item>")
	}
	return b.String() + "</reservationSet>", nil
}

func terminate(s *Server, form url.Values) (string, error) {
	for _, id := range list(form, "InstanceId", "") {
		if m := s.machine(id); m != nil && m.state != "terminated" {
			m.end("Client.UserInitiatedShutdown", "User initiated shutdown")
			s.reconcile(m.group)
		}
	}
	return "", nil
}

func console(s *Server, form url.Values) (string, error) {
	m := s.machine(form.Get("InstanceId"))
	if m == nil {
		return "", refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", form.Get("InstanceId"))
	}
	text, _ := os.ReadFile(filepath.Join(m.dir, "console")) // absent: it has printed nothing
	return element("output", base64.StdEncoding.EncodeToString(text)), nil
}

// launch begins a machine of a group.
func launch(s *Server, g *group) error {
	m := &machine{s: s, group: g, template: s.templates[g.template].form, kind: g.types[len(s.machines)%len(g.types)], zone: g.zones[len(s.machines)%len(g.zones)], spot: g.spot, state: "running", launched: s.now()}
	m.id = fmt.Sprintf("i-%017x", time.Now().UnixNano()+int64(len(s.machines)))
	m.dir = filepath.Join(s.dir, m.id)
	s.machines = append(s.machines, m)
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return err
	}
	if s.knobs.dead {
		return nil
	}
	if err := syscall.Mkfifo(filepath.Join(m.dir, "power"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.dir, "user-data"), []byte(s.templates[g.template].userData), 0o600); err != nil {
		return err
	}
	metadata := httptest.NewServer(http.HandlerFunc(m.serveMetadata))
	words := []string{filepath.Join(s.bin, "sh"), filepath.Join(s.bin, "machine")}
	if len(s.own) > 0 {
		words = []string{s.own[0], "-m", words[0], words[1], s.own[1], s.own[2]}
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.SysProcAttr = m.dir, &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append([]string{"PATH=" + s.bin, "HOME=" + m.dir, "TMPDIR=" + m.dir, "MACHINE=" + m.dir, "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata.URL, "GORACE=atexit_sleep_ms=0"}, append(s.endpoints(), s.docker...)...)
	if err := cmd.Start(); err != nil {
		metadata.Close()
		return err
	}
	m.process = cmd.Process
	s.all.Go(func() { // Server's cleanup waits
		_ = cmd.Wait() // it ends when the machine shuts down, or is killed
		s.mu.Lock()
		m.kill()
		m.process = nil
		if m.state != "terminated" {
			m.end("Client.InstanceInitiatedShutdown", "Instance initiated shutdown")
			s.reconcile(g)
		}
		s.mu.Unlock()
		metadata.Close()
	})
	return nil
}

// kill ends all that runs on the machine.
func (m *machine) kill() {
	if m.process == nil {
		return
	}
	_ = syscall.Kill(-m.process.Pid, syscall.SIGKILL)
	if len(m.s.docker) > 0 { // its containers end with it
		docker := exec.Command(filepath.Join(m.s.bin, "docker"), "rm", "-f", "drover-agent")
		docker.Env = append([]string{"PATH=" + m.s.bin, "HOME=" + m.dir, "MACHINE=" + m.dir}, m.s.docker...)
		m.s.all.Go(func() { _ = docker.Run() }) // what is not there is gone
	}
}

// end has a machine be terminated.
func (m *machine) end(why, words string) {
	m.state, m.why, m.words, m.ended = "terminated", why, why+": "+words, m.s.now()
	m.kill()
}

// serveMetadata is the machine's metadata service, which wants a token.
func (m *machine) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "" {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		fmt.Fprint(w, "token")
		return
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	switch strings.TrimPrefix(r.URL.Path, "/latest/meta-data/") {
	case "instance-id":
		fmt.Fprint(w, m.id)
	case "iam/security-credentials/":
		fmt.Fprint(w, "agents")
	case "iam/security-credentials/agents":
		fmt.Fprint(w, m.s.credentials())
	case "autoscaling/target-lifecycle-state":
		fmt.Fprint(w, "InService")
	case "spot/instance-action":
		if m.takenAt.IsZero() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"action": "terminate", "time": %q}`, m.takenAt.UTC().Format(time.RFC3339))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// Machines are the ids of machines that live, oldest first.
func (s *Server) Machines() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if m.state != "terminated" {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// Launched is how many machines were launched.
func (s *Server) Launched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.machines)
}

// on does something with a machine that lives.
func (s *Server) on(id string, do func(*machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machine(id); m != nil && m.state != "terminated" {
		do(m)
		s.reconcile(m.group)
	}
}

// Warn announces that AWS takes a machine away in two minutes; it does not.
func (s *Server) Warn(id string) {
	s.on(id, func(m *machine) { m.takenAt = time.Now().Add(2 * time.Minute) })
}

// Take takes a machine away without a word.
func (s *Server) Take(id string) {
	s.on(id, func(m *machine) {
		m.end("Server.SpotInstanceTermination", "Spot instance termination")
	})
}

// Detach takes a machine off its group, which has another one in its place, and deletes the group's memory of it.
func (s *Server) Detach(id string) {
	s.on(id, func(m *machine) {
		other := *m.group
		old := m.group
		m.group = &other
		s.reconcile(old)
	})
}

// TerminateByHand terminates a machine as a user does in EC2's console.
func (s *Server) TerminateByHand(id string) {
	s.on(id, func(m *machine) { m.end("Client.UserInitiatedShutdown", "User initiated shutdown") })
}

// KillProcesses ends all that runs on a machine, as a crash of its kernel does.
func (s *Server) KillProcesses(id string) { s.on(id, (*machine).kill) }

// Console is what a machine has printed.
func (s *Server) Console(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machine(id); m != nil {
		text, _ := os.ReadFile(filepath.Join(m.dir, "console")) // absent: nothing
		return string(text)
	}
	return ""
}

// Armed is when a machine shuts itself down, as it has said last: "+21".
func (s *Server) Armed(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machine(id); m != nil {
		text, _ := os.ReadFile(filepath.Join(m.dir, "armed")) // absent: never
		return strings.TrimSpace(string(text))
	}
	return ""
}

// tools are programs of this machine that machines of the fake see.
var tools = []string{"sh", "curl", "sed", "tr", "mkdir", "chmod", "mv", "rm", "tail", "cut", "cat", "sha256sum", "dirname", "env", "sleep", "python3", "head", "true", "touch", "ls", "test"}

// Stand-ins of what else a machine has.
var (
	//go:embed machine.txt
	machineScript string
	//go:embed shutdown.txt
	shutdownScript string
	//go:embed systemd_run.txt
	systemdRunScript string
	//go:embed docker.txt
	dockerScript string
)

// makeTools makes the folder of programs that machines see, below a folder.
func makeTools(dir string) (string, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return "", err
	}
	for _, name := range tools {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				return "", err
			}
		}
	}
	for name, text := range map[string]string{"machine": machineScript, "shutdown": shutdownScript, "systemd-run": systemdRunScript, "docker": dockerScript, "systemctl": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			return "", err
		}
	}
	return bin, nil
}
