//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands of docs/how-to/spark.md: Spark on one machine is a program like any other, and a training task goes on with what it left.
func TestRealSparkIsAProgram(t *testing.T) {
	onlyReal(t)
	t.Parallel() // with others that wait for most of their time
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "spark.md"))
	if err != nil {
		t.Fatal(err)
	}
	tool := exec.CommandContext(t.Context(), "sh", filepath.Join("..", "..", "store", "testdata", "servers.sh"), "spark")
	tool.Stderr = os.Stderr
	out, err := tool.Output()
	if err != nil {
		t.Fatalf("install Spark: %v", err)
	}
	spark := strings.TrimSpace(string(out))
	h := newHome(t)
	for i, v := range h.environ {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			h.environ[i] = "PATH=" + filepath.Join(spark, "bin") + ":" + path
		}
	}
	h.environ = append(h.environ, "PYTHONPATH="+spark, "SPARK_LOCAL_IP=127.0.0.1")
	for _, file := range regexp.MustCompile("(?s)`([a-z]+\\.(?:py|csv))`:\n\n```[a-z]*\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		put(t, filepath.Join(h.work, file[1]), []byte(file[2]))
	}
	commands := regexp.MustCompile(`(?m)^\$ drover (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) < 3 {
		t.Fatalf("the page has the commands %q", commands)
	}
	var printed string
	for _, c := range commands[:3] {
		printed, _ = h.drover(t, 0, strings.Fields(strings.ReplaceAll(c[1], "'", ""))...)
	}
	if want := "2 of 5 rows are errors\n"; printed != want {
		t.Errorf("it prints %q, want %q", printed, want)
	}
}
