package start

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drover-run/drover/job"
)

// containerFlags say what programs run in, where the target has containers.
type containerFlags struct {
	image, dockerfile, framework, shm string
	mounts                            []string
}

func (c *containerFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.image, "image", "", "container image, such as python:3.12-slim, tar:./FILE or oci:./FOLDER (default: one with the Python that you have)")
	f.StringVar(&c.dockerfile, "dockerfile", "", "build the image: a folder with a Dockerfile, a file, or its text; skipped when nothing changed")
	f.StringVar(&c.framework, "framework", "", "prebuilt SageMaker image: NAME[:VERSION[:PYTHON]], such as pytorch:2.8.0:py312")
	f.StringVar(&c.shm, "shm", "", "size of /dev/shm in the container, such as 2G")
	f.StringArrayVar(&c.mounts, "mount", nil, "folder of the machine that the container sees: SOURCE:TARGET or SOURCE:TARGET:ro; may be repeated")
}

// apply takes over what was typed. An image that was typed takes the place of
// what a job file says of one.
func (c *containerFlags) apply(spec *job.Spec) error {
	if c.image != "" || c.dockerfile != "" || c.framework != "" {
		spec.Image, spec.Dockerfile, spec.Framework = c.image, c.dockerfile, c.framework
	}
	if c.shm != "" {
		b, err := job.ParseBytes(c.shm)
		if err != nil {
			return fmt.Errorf("read --shm: %w", err)
		}
		spec.Shm = b
	}
	for _, text := range c.mounts {
		source, rest, ok := strings.Cut(text, ":")
		if full, err := filepath.Abs(source); ok && source != "" && err == nil {
			text = full + ":" + rest
		}
		spec.Mounts = append(spec.Mounts, text)
	}
	return nil
}
