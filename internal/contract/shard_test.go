package contract_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAShardedInputSaysSo(t *testing.T) {
	for name, check := range map[string]struct {
		process bool
		file    string
	}{"training": {false, "opt/ml/input/config/inputdataconfig.json"}, "processing": {true, "opt/ml/config/processingjobconfig.json"}} {
		f := alone()
		if check.process {
			f = processing(0, 1)
		}
		f.Root = t.TempDir()
		f.Inputs = map[string]string{"mine": f.Root + "/a", "all": f.Root + "/b"}
		f.Shards = map[string]bool{"mine": true}
		if err := f.Write(""); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(f.Root, check.file))
		if err != nil {
			t.Fatal(err)
		}
		if n, m := strings.Count(string(b), "ShardedByS3Key"), strings.Count(string(b), "FullyReplicated"); n != 1 || m != 1 {
			t.Errorf("%s: %d sharded and %d whole inputs in %s", name, n, m, b)
		}
	}
}
