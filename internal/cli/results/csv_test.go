package results

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// printed are results of items that printed these texts.
func printed(texts ...string) resultSeq {
	return func(yield func(drover.ItemResult, error) bool) {
		for i, text := range texts {
			code := 0
			r := drover.ItemResult{Item: i + 1, Value: "v", Fields: map[string]string{"town": "Bern"}, State: job.ItemSucceeded, Try: drover.Try{Code: &code, Stdout: text}}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestResultsThatAreObjectsHaveColumns(t *testing.T) {
	late := make([]string, csvLooksAt)
	for i := range late {
		late[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	for name, row := range map[string]struct {
		names   []string
		printed []string
		want    string // what is beside item and value
	}{
		"text": {nil, []string{"a", `["x"]`, "7", ""}, "state,status,seconds,stdout,outputs|SUCCEEDED,0,0.000,a,|SUCCEEDED,0,0.000,\"[\"\"x\"\"]\",|SUCCEEDED,0,0.000,7,|SUCCEEDED,0,0.000,,"},
		"objects": {nil, []string{`{"acc":0.50,"name":"a,b"}` + "\n", `{"name":null,"deep":{"x": [1, 2]},"ok":true}`}, "state,status,seconds,stdout,outputs,acc,name,deep,ok,extra|" +
			"SUCCEEDED,0,0.000,,,0.50,\"a,b\",,,|SUCCEEDED,0,0.000,,,,,\"{\"\"x\"\":[1,2]}\",true,"},
		"mixed": {nil, []string{`{"acc":1}`, "no", `{"acc":2} and more`, `{"acc":`, `{"acc":3,"acc":4}`}, "state,status,seconds,stdout,outputs,acc,extra|SUCCEEDED,0,0.000,,,1,|SUCCEEDED,0,0.000,no,,,|" +
			"SUCCEEDED,0,0.000,\"{\"\"acc\"\":2} and more\",,,|SUCCEEDED,0,0.000,\"{\"\"acc\"\":\",,,|SUCCEEDED,0,0.000,,,4,"},
		"names that are taken": {[]string{"town"}, []string{`{"town":"Rome","state":1,"extra":2,"item":3}`},
			"state,status,seconds,stdout,outputs,result.town,result.state,result.extra,result.item,extra|SUCCEEDED,0,0.000,,,Rome,1,2,3,"},
		"empty objects": {nil, []string{"{}", "{}"}, "state,status,seconds,stdout,outputs|SUCCEEDED,0,0.000,{},|SUCCEEDED,0,0.000,{},"},
		"late": {nil, append(late, `{"n":1,"new":"x","more":[1]}`), "state,status,seconds,stdout,outputs,n,extra|" +
			"SUCCEEDED,0,0.000,,,1,\"{\"\"new\"\":\"\"x\"\",\"\"more\"\":[1]}\""},
	} {
		var out bytes.Buffer
		if err := csvResults(&out, row.names, printed(row.printed...)); err != nil {
			t.Fatal(err)
		}
		if rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll(); err != nil || len(rows) != len(row.printed)+1 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		var got []string
		for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if name == "late" && i > 0 && i <= csvLooksAt {
				continue
			}
			got = append(got, strings.SplitN(line, ",", 3)[2])
		}
		if diff := cmp.Diff(strings.Split(row.want, "|"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
