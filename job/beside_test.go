package job

import (
	"strings"
	"testing"
)

func TestATaskBesideAnotherHasANameOfItsOwn(t *testing.T) {
	long := strings.Repeat("a", 33)
	seen := map[string]string{}
	for _, task := range []string{"resize", "a", long, long + "-f4d25d", long + "-f4d25e", strings.Repeat("b-", 19) + "bb", strings.Repeat("c", MaxName)} {
		for _, what := range []string{"pilot", "calm", "drill"} {
			name := Beside(task, what)
			if err := ValidName("task", name); err != nil || !strings.HasSuffix(name, "-"+what) {
				t.Errorf("Beside(%q, %q) is %q: %v", task, what, name, err)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("Beside(%q, %q) is %q, as is that of %q", task, what, name, other)
			}
			seen[name] = task
		}
	}
	if name := Beside("resize", "pilot"); name != "resize-pilot" {
		t.Errorf("got %q", name)
	}
}
