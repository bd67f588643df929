package image

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// Region is the AWS region that a person has chosen: AWS_REGION,
// AWS_DEFAULT_REGION, what drover's config says, the profile's in AWS's own
// config file; "" for none. env is os.Getenv. A file that cannot be read says
// nothing.
func Region(env func(string) string, config string) string {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if v := env(name); v != "" {
			return v
		}
	}
	if config != "" {
		return config
	}
	file, profile := env("AWS_CONFIG_FILE"), env("AWS_PROFILE")
	if file == "" {
		home := env("HOME")
		if home == "" {
			return ""
		}
		file = filepath.Join(home, ".aws", "config")
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	section := "[profile " + profile + "]"
	if profile == "" || profile == "default" {
		section = "[default]"
	}
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			within = strings.Join(strings.Fields(line), " ") == section
			continue
		}
		if key, value, ok := strings.Cut(line, "="); within && ok && strings.TrimSpace(key) == "region" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
