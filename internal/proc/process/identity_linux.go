package process

import (
	"os"
	"strconv"
	"strings"
)

func Boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// namespace is "pid:[4026531836]" and the like.
func namespace() string {
	s, _ := os.Readlink("/proc/self/ns/pid") // "": unknown
	return s
}

func Find(pid int) (p Entry, alive bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Entry{}, false, err
	}
	return ParseStat(stat)
}
