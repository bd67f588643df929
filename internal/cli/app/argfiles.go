package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// mostArgFile is the most that a file named in an option may have, in bytes.
const mostArgFile = 64 << 10

// ReadArgFiles gives options of the form NAME=@FILE the text of the file: the job has it from then
// on, wherever it is resumed.
func ReadArgFiles(args []string) (read []string, err error) {
	for _, arg := range args {
		name, file, ok := strings.Cut(arg, "=@")
		if !ok {
			read = append(read, arg)
			continue
		}
		text, err := os.ReadFile(file)
		if err == nil && len(text) > mostArgFile {
			err = fmt.Errorf("it is larger than %s", job.Bytes(mostArgFile).Words())
		}
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "Name a file: `--target-arg "+name+"=@FILE`.", "read --target-arg %s", arg)
		}
		read = append(read, name+"="+string(text))
	}
	return read, nil
}

// readTargetFiles gives the target on, if it is one of targets, the texts of the files that its options name. Those of
// other targets are not looked at.
func readTargetFiles(on string, targets map[string]job.Target) error {
	t, ok := targets[on]
	if !ok {
		return nil
	}
	args, err := ReadArgFiles(t.Args)
	if err != nil {
		return fmt.Errorf("use target %s: %w", on, err)
	}
	t.Args = args
	targets[on] = t
	return nil
}
