package folder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OOMKills is the kernel's count of out-of-memory kills in the container's own group, which is at root in both versions of
// cgroups; 0 where the kernel does not show it.
func OOMKills(root string) int64 {
	for _, file := range []string{"memory.events", "memory/memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if number, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(number), 10, 64) // anything else counts as 0
				return n
			}
		}
	}
	return 0
}
