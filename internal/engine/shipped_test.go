package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
)

const planted = "pAssw0rd9x"

// keys returns the names of all objects in the store.
func (d *desk) keys() (keys []string) {
	d.t.Helper()
	for o, err := range d.World.Store.List(d.t.Context(), "") {
		d.check(err)
		keys = append(keys, o.Key)
	}
	return keys
}

// TestAnItemWithAPasswordIsRefusedBeforeAnythingIsStored: also far behind the items that
// a plan looks at for an address, and in any format.
func TestAnItemWithAPasswordIsRefusedBeforeAnythingIsStored(t *testing.T) {
	var said faulttest.Sayings
	for from, text := range map[string]string{
		"items.txt":   strings.Repeat("https://host/a\n", 3*fetchSample) + "https://me:" + planted + "@host/b\n",
		"token.txt":   "https://host/a\nhttps://" + planted + "@host/b\n",
		"bucket.txt":  "https://host/a\ns3://AKIA:" + planted + "@bucket/b\n",
		"second.txt":  "https://host/a\ns3://bucket/x/https://u:" + planted + "@h\n",
		"encoded.txt": "https://host/a\nhttps://me:" + planted + "%40host/b@2x\nhttps://me:" + planted + "@host/b\n",
		"items.csv":   "name,where\na,https://host/a\nb,https://me:" + planted + "@host/b\n",
		"items.jsonl": `{"u":"https://host/a"}` + "\n" + `{"u":"https:\/\/me:` + planted + `\u0040host\/b"}` + "\n",
	} {
		d := newDesk(t)
		d.write(map[string]string{from: text})
		spec := mapping()
		spec.Fetch, spec.From = true, from
		if from == "items.csv" {
			spec.Args = []string{"{where}"}
		}
		p, err := d.Plan(t.Context(), spec, false)
		if err == nil {
			_, err = d.Submit(t.Context(), &p)
			p.Close()
		}
		said.Error(from, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), "user's name or password") || strings.Contains(fmt.Sprint(err)+fault.Hint(err), planted) {
			t.Errorf("%s: %v", from, err)
		}
		if keys := d.keys(); len(keys) > 0 {
			t.Errorf("%s: stored all the same: %q", from, keys)
		}
	}
	said.Compare(t, "item-passwords")
}

// TestItemsThatAreAddressesWithAnAtAreFetched: an @ alone is no password.
func TestItemsThatAreAddressesWithAnAtAreFetched(t *testing.T) {
	d := newDesk(t)
	d.write(map[string]string{"items.txt": "https://host:8080/photo@2x.png\ns3://bucket/me@x/y\ns3://bucket/a:b@c\nhttps://host/?to=me@host\n"})
	spec := mapping()
	spec.Fetch = true
	p, err := d.Plan(t.Context(), spec, false)
	d.check(err)
	defer p.Close()
	if len(p.Items.Notes) > 0 {
		t.Errorf("notes: %q", p.Items.Notes)
	}
}

// TestItemsForTheProgramWithAPasswordGetANote: without --fetch they are the user's own.
func TestItemsForTheProgramWithAPasswordGetANote(t *testing.T) {
	d := newDesk(t)
	d.write(map[string]string{"items.txt": "me@host\npostgres://me:" + planted + "@db/x\nhttps://${USER}:${PASS}@host/\nredis://:" + planted + "@h\n"})
	p, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer p.Close()
	notes := strings.Join(p.Items.Notes, "\n")
	if !strings.Contains(notes, "2 items, item 2 first, with a password in an address: items are stored as they are, and --secret NAME keeps a password out of them") || strings.Contains(notes, planted) {
		t.Errorf("notes: %q", notes)
	}
}

// TestCodeWithAPasswordGetsANote: each file of the kinds that name package indexes, and
// what is no password in them.
func TestCodeWithAPasswordGetsANote(t *testing.T) {
	with := map[string]string{
		"requirements.txt":          "numpy\n--index-url https://me:" + planted + "@host/simple\n",
		"sub/dev-requirements.txt":  "# x\npkg @ git+https://oauth2:" + planted + "@host/x.git\n",
		"requirements/base.in.txt":  "numpy\n",
		"requirements-dev.txt":      "\n--extra-index-url=https://__token__:" + planted + "@host/simple",
		"pip.conf":                  "[global]\nindex-url = https://me:" + planted + "@host/simple\n",
		"uv.toml":                   "[[index]]\nurl = \"https://me:" + planted + "@host/simple\"\n",
		"Pipfile":                   "[[source]]\nurl = \"https://me:" + planted + "@host/simple\"\n",
		"pyproject.toml":            "[[tool.uv.index]]\nurl = 'https://me:" + planted + "@host/simple'\n",
		"environment.yml":           "channels:\n  - https://me:" + planted + "@host/ch\n",
		"token/requirements.txt":    "x\npkg @ git+https://ghp_0123456789abcdefABCDEF0123456789abcd@github.com/a/b.git\n",
		".netrc":                    "machine host login me password " + planted + "\n",
		"variable/requirements.txt": "--index-url https://${USER}:${PASS}@host/simple\npkg @ git+ssh://git@github.com/a/b.git\n",
		"standin/requirements.txt":  "--index-url https://me:****@host/simple\n",
	}
	none := []string{"requirements/base.in.txt", "variable/requirements.txt", "standin/requirements.txt"}
	for name, text := range with {
		d := newDesk(t)
		d.write(map[string]string{name: text})
		p, err := d.Plan(t.Context(), job.Spec{Project: "demo", Task: "t", Verb: job.Run, Program: "train.sh", On: mem.Name}, false)
		d.check(err)
		notes := strings.Join(p.Code.Notes, "\n")
		found := strings.Contains(notes, name+" line 2 has a password") || strings.Contains(notes, name+" holds logins")
		if found == slices.Contains(none, name) || strings.Contains(notes, planted) {
			t.Errorf("%s: notes %q", name, notes)
		}
		d.check(p.Close())
	}
}
