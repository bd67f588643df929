package start

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/job"
)

// containerFlags say what programs run in, where the target has containers.
type containerFlags struct {
	image, dockerfile, framework, shm string
	mounts                            []string
}

func (c *containerFlags) addFlags(o optionFlags) {
	o.textFlag(&c.image, "Image")
	o.textFlag(&c.dockerfile, "Dockerfile")
	o.textFlag(&c.framework, "Framework")
	o.textFlag(&c.shm, "Shm")
	o.listFlag(&c.mounts, "Mounts")
}

// applyFlags takes over what was typed. An image that was typed takes the place of
// what a job file says of one.
func (c *containerFlags) applyFlags(spec *job.Spec) error {
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
