package price_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/report"
)

var update = flag.Bool("update", false, "write the table of docs/scale.md anew")

// scaleLine is what TestScale of package ledger has counted of one map.
type scaleLine struct {
	Agents, Items, Chunks, Seconds int
	AgentSeconds                   int `json:"agent_seconds"`
	Writes, Lists, Reads           int
	PeakWrites                     int    `json:"peak_writes"`
	PeakWritesOf                   string `json:"peak_writes_of"`
	PeakReads                      int    `json:"peak_reads"`
	PeakReadsOf                    string `json:"peak_reads_of"`
	PeakClaims                     int    `json:"peak_claims"`
	BytesUp                        int64  `json:"bytes_up"`
	Heap                           int64
	Plan                           report.Requests
	PlanMinute                     report.Requests `json:"plan_minute"`
}

// The limits of S3 for a prefix and a second, and how far a plan may be off.
const (
	mostWrites = 3500
	mostReads  = 5500
	mostOff    = 2
)

func counted(t *testing.T) (lines []scaleLine) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "scale.json"))
	if err == nil {
		err = json.Unmarshal(text, &lines)
	}
	if err != nil || len(lines) == 0 {
		t.Fatal(err, len(lines))
	}
	return lines
}

func (l scaleLine) money() report.Dollars { return price.S3().Requests(l.Writes, l.Lists, l.Reads) }

func (l scaleLine) planned() report.Dollars {
	r := l.Plan.Add(l.PlanMinute.Times(float64(l.AgentSeconds) / 60 / float64(l.Agents)))
	return price.S3().Requests(r.Writes, r.Lists, r.Reads)
}

func TestTheScaleKeepsToTheLimitsAndToThePlan(t *testing.T) {
	for _, l := range counted(t) {
		if l.PeakWrites > mostWrites || l.PeakReads > mostReads {
			t.Errorf("%d agents, %d items: %d writes, %d reads of one prefix in a second", l.Agents, l.Items, l.PeakWrites, l.PeakReads)
		}
		if got, want := l.money(), l.planned(); got > mostOff*want || want > mostOff*got {
			t.Errorf("%d agents, %d items cost %s, and --plan said %s", l.Agents, l.Items, got, want)
		}
	}
}

// The table of docs/scale.md is that of the counts, at the prices of the table.
func TestTheScaleInTheDocsIsAsCounted(t *testing.T) {
	const begin, end = "<!-- counted -->\n", "<!-- end -->\n"
	file := filepath.Join("..", "..", "docs", "scale.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	page := before + begin + table(counted(t)) + end + after
	if page == string(text) {
		return
	}
	if !*update {
		t.Fatal("docs/scale.md is not as counted: go test ./internal/price -update")
	}
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table(lines []scaleLine) string {
	var b strings.Builder
	b.WriteString("| Agents | Items | Chunks | Took | Writes | Lists | Reads | Requests a chunk | Most writes/s | Most reads/s | Most claims/s | Stored | Costs | `--plan` |\n")
	b.WriteString("|" + strings.Repeat("--:|", 14) + "\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %dm%02ds | %s | %s | %s | %s | %s (%s) | %s (%s) | %s | %s | %s | %s |\n", comma(l.Agents), comma(l.Items), comma(l.Chunks), l.Seconds/60, l.Seconds%60,
			comma(l.Writes), comma(l.Lists), comma(l.Reads), comma((l.Writes+l.Lists+l.Reads)/l.Chunks), comma(l.PeakWrites), l.PeakWritesOf, comma(l.PeakReads), l.PeakReadsOf,
			comma(l.PeakClaims), megabytes(l.BytesUp), l.money(), l.planned())
	}
	return b.String()
}

func megabytes(n int64) string { return comma(int((n+999_999)/1_000_000)) + " MB" }

func comma(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
