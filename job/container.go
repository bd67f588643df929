package job

import (
	"path"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Container is what a job's programs run in, on a target that has containers.
// At most one of Image, Framework and a Dockerfile that names its own base says
// where it begins; none of them leaves that to the target.
type Container struct {
	Image string `json:"image,omitempty" yaml:"image,omitempty" jsonschema:"description=Container image\\, such as python:3.12-slim. Default: one with the Python that the caller has"`
	// Dockerfile is a folder that holds one, a file, or its text, which has a line
	// end or begins with an instruction. In it __BASE_IMAGE__ stands for Image or
	// Framework; a text without FROM is built on these.
	Dockerfile string `json:"dockerfile,omitempty" yaml:"dockerfile,omitempty" jsonschema:"description=Build the image: a folder with a Dockerfile\\, a file\\, or its text. __BASE_IMAGE__ is image or framework"`
	// Framework is NAME, NAME:VERSION or NAME:VERSION:PY of a prebuilt SageMaker
	// image: "pytorch:2.8.0:py312".
	Framework string `json:"framework,omitempty" yaml:"framework,omitempty" jsonschema:"description=Prebuilt SageMaker image: NAME\\, NAME:VERSION or NAME:VERSION:PYTHON\\, such as pytorch:2.8.0:py312"`
	Shm       Bytes  `json:"shm,omitempty" yaml:"shm,omitempty" jsonschema:"description=Size of /dev/shm in the container\\, such as 2G. Default: the target's"`
	// Mounts are folders of the machine that the container sees, as docker writes
	// them: SOURCE:TARGET or SOURCE:TARGET:ro, both absolute in normal form.
	Mounts []string `json:"mounts,omitempty" yaml:"mounts,omitempty" jsonschema:"description=Folders of the machine that the container sees: SOURCE:TARGET or SOURCE:TARGET:ro"`
}

// Set says whether anything was asked of a container.
func (c Container) Set() bool {
	return c.Image != "" || c.Dockerfile != "" || c.Framework != "" || c.Shm != 0 || len(c.Mounts) > 0
}

// Mount is one folder or file of the machine that a container sees.
type Mount struct {
	Source   string // absolute, on the machine
	Target   string // absolute, in the container
	ReadOnly bool
}

// ParseMount reads SOURCE:TARGET[:ro]. Source may be relative to the folder of
// the user: the command line makes it absolute before the spec is checked.
func ParseMount(text string) (Mount, error) {
	hint := "Write it as `--mount /data:/data`, or `/data:/data:ro`."
	parts := strings.Split(text, ":")
	m := Mount{}
	if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		m.ReadOnly, parts = parts[2] == "ro", parts[:2]
	}
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return m, fault.New(fault.Invalid, hint, "read mount: %q is not of the form SOURCE:TARGET", text)
	}
	m.Source, m.Target = parts[0], parts[1]
	if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
		return m, fault.New(fault.Invalid, hint, "read mount %q: %q is not a folder in a container", text, m.Target)
	}
	for _, own := range []string{"/opt/ml", "/state", "/proc", "/sys", "/dev"} {
		if m.Target == own || strings.HasPrefix(m.Target, own+"/") || strings.HasPrefix(own, m.Target+"/") && m.Target != "/opt" {
			return m, fault.New(fault.Invalid, "Choose another folder, such as /data.", "read mount %q: %s in a container is used by drover itself", text, own)
		}
	}
	return m, nil
}

// String is the text that ParseMount reads.
func (m Mount) String() string {
	if m.ReadOnly {
		return m.Source + ":" + m.Target + ":ro"
	}
	return m.Source + ":" + m.Target
}

// maxDockerfile is enough for any that people write by hand.
const maxDockerfile = 1 << 20

func checkContainer(s Spec) error {
	c := s.Container
	switch {
	case c.Image != "" && c.Framework != "":
		return fault.New(fault.Invalid, "Leave one of them out.", "check job: both image %q and framework %q", c.Image, c.Framework)
	case strings.ContainsAny(c.Image, " \t\n\x00") || strings.HasPrefix(c.Image, "-"):
		return fault.New(fault.Invalid, "Use a reference such as python:3.12-slim.", "check job: %q is not a valid image reference", c.Image)
	case len(c.Dockerfile) > maxDockerfile:
		return fault.New(fault.Invalid, "Put it into a file and name that.", "check job: a Dockerfile of %d bytes, at most %d", len(c.Dockerfile), maxDockerfile)
	case strings.ContainsRune(c.Dockerfile, 0):
		return fault.New(fault.Invalid, "", "check job: the Dockerfile holds a NUL byte")
	case c.Shm < 0 || c.Shm > 0 && c.Shm < 1<<20:
		return fault.New(fault.Invalid, "Write the unit: `--shm 1G`.", "check job: %d bytes of shared memory", int64(c.Shm))
	}
	targets := map[string]bool{}
	for _, text := range c.Mounts {
		m, err := ParseMount(text)
		if err != nil {
			return err
		}
		if !path.IsAbs(m.Source) {
			return fault.New(fault.Invalid, "Write the whole path.", "check job: mount %q: %q is not absolute", text, m.Source)
		}
		if targets[m.Target] {
			return fault.New(fault.Invalid, "Give each mount a folder of its own.", "check job: two mounts at %s", m.Target)
		}
		targets[m.Target] = true
	}
	return nil
}
