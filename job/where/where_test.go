package where_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// parsed is an expression that must be one.
func parsed(t *testing.T, text string) where.Expr {
	t.Helper()
	e, err := where.Parse(text)
	if err != nil {
		t.Fatalf("%v (%s)", err, fault.Hint(err))
	}
	return e
}

func TestAnExpressionHasOneCanonicalText(t *testing.T) {
	for typed, want := range map[string]string{
		"":                                      "",
		" ":                                     "",
		"()":                                    "refused",
		"type =~ p3.* and zone != us-east-1a":   "type =~ p3.* and zone != us-east-1a",
		"zone != us-east-1a AND type=~p3.*":     "type =~ p3.* and zone != us-east-1a",
		"type == a or (type == b or type == c)": "type == a or type == b or type == c",
		"(zone == a or zone == b) and cpus > 8": "cpus > 8 and (zone == a or zone == b)",
		"zone == a or zone == b and cpus > 8":   "cpus > 8 and zone == b or zone == a",
		"not (zone == a or cpus < 8)":           "cpus >= 8 and zone != a",
		"not not zone == a":                     "zone == a",
		"!(zone == a && cpus <= 8) || node =~ n?":         "cpus > 8 or node =~ n? or zone != a",
		"zone in (b, a, b)":                               "zone in (a, b)",
		"zone in [a]":                                     "zone == a",
		"zone not in (a, b)":                              "zone not in (a, b)",
		"not zone in (a, b)":                              "zone not in (a, b)",
		"zone !in [a, b]":                                 "zone not in (a, b)",
		"zone == a and zone == a":                         "zone == a",
		"memory >= 64GiB and disk.local > 1.5T":           "disk.local > 1536G and memory >= 64G",
		"cpus == 8.0":                                     "cpus == 8",
		"cpus >= -0":                                      "cpus >= 0",
		"network >= 25Gbps":                               "network >= 25",
		"network >= 500Mbit/s":                            "network >= 0.5",
		`gpu.name == "NVIDIA A100-SXM4-80GB"`:             "gpu.name == a100-sxm4-80gb",
		"gpu.name == 'Tesla V100'":                        "gpu.name == v100",
		"arch == x86_64":                                  "arch == amd64",
		`feature == "two words"`:                          `feature == "two words"`,
		`feature == 'a "quote"'`:                          `feature == 'a "quote"'`,
		`feature == "and"`:                                `feature == "and"`,
		`type =~ p3.\*`:                                   "type =~ p3.*",
		"node =~ gpu-*":                                   "node =~ gpu-*",
		"TYPE == p3.2xlarge":                              "type == p3.2xlarge",
		"purchase == ON_DEMAND":                           "purchase == on-demand",
		"gpu.count in (1, 2) and gpu.memory >= 16000000K": "gpu.count in (1, 2) and gpu.memory >= 15625M",
	} {
		e, err := where.Parse(typed)
		if want == "refused" {
			if err == nil {
				t.Errorf("%q is read as %s", typed, e)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v (%s)", err, fault.Hint(err))
			continue
		}
		if e.String() != want {
			t.Errorf("%q is %q, want %q", typed, e, want)
		}
		if again := parsed(t, e.String()); again.String() != want {
			t.Errorf("%q is read again as %q", want, again)
		}
	}
}

func TestOtherSystemsNamesAreRead(t *testing.T) {
	for typed, want := range map[string]string{
		"attribute:ecs.instance-type =~ p3.*":                                "type =~ p3.*",
		"attribute:ecs.availability-zone in [us-east-1a, us-east-1b]":        "zone in (us-east-1a, us-east-1b)",
		"attribute:ecs.cpu-architecture == x86_64":                           "arch == amd64",
		"node.kubernetes.io/instance-type == g5.xlarge":                      "type == g5.xlarge",
		"topology.kubernetes.io/zone != eu-west-1c":                          "zone != eu-west-1c",
		"topology.kubernetes.io/region == eu-west-1":                         "region == eu-west-1",
		"karpenter.sh/capacity-type == spot":                                 "purchase == spot",
		"eks.amazonaws.com/capacityType == SPOT":                             "purchase == spot",
		"kubernetes.io/arch == arm64 and kubernetes.io/hostname == ip-1-2":   "arch == arm64 and node == ip-1-2",
		"karpenter.k8s.aws/instance-memory > 65536":                          "memory > 64G",
		"karpenter.k8s.aws/instance-local-nvme >= 100":                       "disk.local >= 100G",
		"karpenter.k8s.aws/instance-network-bandwidth >= 25000":              "network >= 25",
		"nvidia.com/gpu.product == NVIDIA-A10G and nvidia.com/gpu.count > 1": "gpu.count > 1 and gpu.name == a10g",
	} {
		if got := parsed(t, typed).String(); got != want {
			t.Errorf("%q is %q, want %q", typed, got, want)
		}
	}
}

// The expression of the article that drover began with is read as it stands there.
func TestTheArticlesConstraintIsRead(t *testing.T) {
	if got := parsed(t, `attribute:ecs.instance-type =~ p3.\*`).String(); got != "type =~ p3.*" {
		t.Errorf("it is %q", got)
	}
}

func TestWhatIsNoExpressionIsRefused(t *testing.T) {
	for typed, want := range map[string][2]string{
		"tipe == a":                       {`"tipe" is not a property of machines`, "Did you mean type?"},
		"colour == a":                     {`"colour" is not a property of machines`, "Use one of type, family, zone, region, arch, cpus, memory, gpu.name, gpu.count, gpu.memory, disk.local, network, purchase, feature, node."},
		"topology.kubernetes.io/zones==a": {`"topology.kubernetes.io/zones" is not a property of machines`, "Did you mean topology.kubernetes.io/zone?"},
		"purchase == spto":                {`"spto" is not a value of purchase`, "Did you mean spot?"},
		"arch == sparc":                   {`"sparc" is not a value of arch`, "Use one of amd64, arm64, ppc64le, riscv64, s390x."},
		"type = a":                        {`= is not a comparison`, "Write it as type == VALUE."},
		"type is a":                       {`"is" stands where a comparison of type should be`, "Use ==, !=, =~, !~, in, <, <=, > or >=."},
		"type":                            {`nothing stands where a comparison of type should be`, "Use ==, !=, =~, !~, in, <, <=, > or >=."},
		"type ==":                         {`nothing stands where a value of type should be`, "Write a value behind ==, in quotes if it is a word such as and."},
		"type == and":                     {`"and" stands where a value of type should be`, "Write a value behind ==, in quotes if it is a word such as and."},
		"== a":                            {`"==" stands where a name should be`, "Write name, comparison and value: type =~ p3.*"},
		"type == a zone == b":             {`"zone" follows a whole expression`, "Join comparisons with and, or: type == p3.2xlarge and zone != us-east-1a."},
		"type == a)":                      {`")" follows a whole expression`, "Join comparisons with and, or: type == p3.2xlarge and zone != us-east-1a."},
		"(type == a":                      {`nothing stands where ) is missing`, "Close each parenthesis."},
		"type == a and":                   {`nothing stands where a name should be`, "Write name, comparison and value: type =~ p3.*"},
		"type == p3.*":                    {`"p3.*" is a glob, and == compares whole texts`, "Globs stand behind =~ and !~: type =~ p3.*."},
		"type < a":                        {`type is a text, and < is for numbers`, "Use ==, !=, =~, !~ or in."},
		"cpus =~ 8*":                      {`cpus is compared with a number, and =~ is for texts`, "Use ==, !=, in, <, <=, > or >=."},
		"cpus > many":                     {`cpus is compared with a number, and "many" is none`, "Write it as 8 or 0.5."},
		"cpus > NaN":                      {`cpus is compared with a number, and "NaN" is none`, "Write it as 8 or 0.5."},
		"memory > much":                   {`memory is compared with a size, and "much" is none`, "Write it as 512M, 16G or 2T."},
		"memory > 64":                     {`memory is compared with 64 bytes`, "Write the unit: 64G."},
		"zone in a":                       {`"a" stands where the values of zone should be`, "Write it as zone in (a, b)."},
		"zone in ()":                      {`")" stands where a value of zone should be`, "Write it as zone in (a, b)."},
		"zone in (a b)":                   {`"b" stands between the values of zone`, "Put commas between values, and ) behind them."},
		`zone == "a`:                      {`a quote is open at its end`, `Close it: type == "a".`},
		`zone == ""`:                      {`a value of zone is empty`, "Write zone == VALUE."},
		"zone == a;b":                     {`";" has no meaning`, `Put values with other letters in quotes: feature == "a&b".`},
		"zone == a\nand":                  {`it holds a control character`, "Write it in one line."},
		"zone == a and zone == b":         {`no machine can be that: zone == a and zone == b`, "For one of several, use in: zone in (a, b)."},
		"zone == a and zone != a":         {`no machine can be that: zone != a and zone == a`, "Leave one of them out."},
		"cpus < 8 and cpus >= 8":          {`no machine can be that: cpus < 8 and cpus >= 8`, "Leave one of them out."},
		"type =~ p3.* and type =~ g?.*":   {`no machine can be that: type =~ g?.* and type =~ p3.*`, "Leave one of them out."},
		"type =~ p3.* and type == g5.x":   {`no machine can be that: type == g5.x and type =~ p3.*`, "Leave one of them out."},
		"feature == a and feature != a":   {`no machine can be that: feature != a and feature == a`, "Leave one of them out."},
		"feature =~ a* and feature !~ a*": {`no machine can be that: feature !~ a* and feature =~ a*`, "Leave one of them out."},
		"cpus < 0":                        {`no machine can be that: cpus < 0`, "Leave one of them out."},
		"purchase not in (spot, on-demand, reserved)": {`no machine can be that: purchase not in (on-demand, reserved, spot)`, "Leave one of them out."},
		strings.Repeat("(", 40):                       {`parentheses are more than 32 deep`, "Write it without the parentheses that change nothing."},
		strings.Repeat("a", 5000):                     {`it is longer than 4096 bytes`, "Use globs: type =~ p3.*"},
		"node == " + strings.Repeat("a", 300):         {`a value of node is longer than 253 bytes`, "Use a glob: node =~ gpu-*"},
		alternatives(9):                               {`it stands for more than 256 alternatives`, "Use in and globs in place of or."},
	} {
		e, err := where.Parse(typed)
		if err == nil {
			t.Errorf("%q is read as %q", typed, e)
			continue
		}
		_, text, _ := strings.Cut(err.Error(), `": `)
		if strings.Contains(typed, `"`) {
			text = err.Error()[strings.LastIndex(err.Error(), `": `)+3:]
		}
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "read --where ") || text != want[0] || fault.Hint(err) != want[1] {
			t.Errorf("%q:\n got %q (%s)\nwant %q (%s)", typed, text, fault.Hint(err), want[0], want[1])
		}
	}
}

// alternatives is an expression of 2^n clauses.
func alternatives(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = "(feature == a" + string(rune('a'+i)) + " or feature == b" + string(rune('a'+i)) + ")"
	}
	return strings.Join(parts, " and ")
}

func TestAMachineMatchesOrNotOrIsNotKnownTo(t *testing.T) {
	machine := where.Attributes{
		where.Type: {"p3.2xlarge"}, where.Arch: {"x86_64"}, where.CPUs: {"8"}, where.Memory: {"61G"}, where.GPUName: {"Tesla V100"}, where.GPUCount: {"1"},
		where.Feature: {"ssd", "ib"}, where.Node: {"n1"}, where.DiskLocal: {},
	}
	for text, want := range map[string]where.Truth{
		"":                                  where.True,
		"type =~ p3.*":                      where.True,
		"type =~ p3":                        where.False,
		"type !~ g*":                        where.True,
		"type in (p3.2xlarge, p3.8xlarge)":  where.True,
		"type not in (p3.2xlarge, x)":       where.False,
		"arch == amd64":                     where.True,
		"cpus >= 8 and memory > 60G":        where.True,
		"cpus > 8":                          where.False,
		"cpus in (4, 8)":                    where.True,
		"memory <= 61G":                     where.True,
		"gpu.name == v100":                  where.True,
		"gpu.name =~ v*":                    where.True,
		"feature == ib and feature == ssd":  where.True,
		"feature != ib":                     where.False,
		"feature != hdd":                    where.True,
		"feature =~ s?d":                    where.True,
		"disk.local == 0":                   where.True,
		"disk.local >= 1T":                  where.False,
		"zone == a":                         where.Unknown,
		"zone != a":                         where.Unknown,
		"zone == a or cpus == 8":            where.True,
		"zone == a and cpus == 9":           where.False,
		"zone == a and cpus == 8":           where.Unknown,
		"not (zone == a and cpus == 9)":     where.True,
		"zone == a or zone != a":            where.Unknown, // each by itself
		"purchase == spot or node != n1":    where.Unknown,
		"purchase == spot and node =~ n[1]": where.False,
	} {
		if strings.Contains(text, "[") {
			text = strings.NewReplacer("[", "", "]", "0").Replace(text)
		}
		if got := parsed(t, text).Eval(machine); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if got := parsed(t, "cpus > 1").Eval(where.Attributes{where.CPUs: {"?"}}); got != where.Unknown {
		t.Errorf("a number that is none is %s", got)
	}
}

func TestWhatIsNotMetIsSaid(t *testing.T) {
	machine := where.Attributes{where.CPUs: {"8"}, where.Memory: {"34359738368"}, where.Feature: {}, where.GPUName: {"a", "b", "c", "d", "e"}}
	for text, want := range map[string]string{
		"":                                 "",
		"cpus >= 8":                        "",
		"cpus >= 64 and memory >= 1G":      "cpus >= 64 is asked for, and cpus is 8",
		"memory >= 64G":                    "memory >= 64G is asked for, and memory is 32G",
		"cpus >= 8 and zone != us-east-1a": "zone != us-east-1a is asked for, and zone is not known",
		"feature == ib":                    "feature == ib is asked for, and feature has no value",
		"cpus == 1 or zone == a":           "cpus == 1 or zone == a is asked for, and zone is not known",
		"cpus == 1 or memory == 1G":        "cpus == 1 or memory == 1G is asked for, and cpus is 8, memory is 32G",
		"gpu.name == h100":                 "gpu.name == h100 is asked for, and gpu.name is a, b, c, d, ...",
	} {
		if got := parsed(t, text).Unmet(machine); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestTheNormalFormIsClausesOfWhichOneHolds(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                      {""},
		"zone == a":                             {"zone == a"},
		"(zone == a or zone == b) and cpus > 8": {"cpus > 8 and zone == a", "cpus > 8 and zone == b"},
		"not (zone == a and (cpus > 8 or node == n))":        {"cpus <= 8 and node != n", "zone != a"},
		"(zone == a or zone == b) and (zone == b or cpus>8)": {"cpus > 8 and zone == a", "cpus > 8 and zone == b", "zone == b"},
	} {
		var got []string
		for _, c := range parsed(t, text).Normal() {
			got = append(got, c.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestATermOfTheNormalFormHasItsParts(t *testing.T) {
	want := []where.Clause{{{Name: where.Zone, Op: "not in", Values: []string{"a", "b"}}}}
	if diff := cmp.Diff(want, parsed(t, "not zone in (b, a)").Normal()); diff != "" {
		t.Error(diff)
	}
	if term := want[0][0]; term.Holds("a") || !term.Holds("c") {
		t.Error("a term does not hold where it should")
	}
}

func TestExpressionsAreJoined(t *testing.T) {
	types, err := where.OneOf(where.Type, "g5.xlarge", "g6.*")
	if err != nil || types.String() != "type == g5.xlarge or type =~ g6.*" {
		t.Fatalf("%q, %v", types, err)
	}
	both, err := where.All(types, parsed(t, "zone != a and cpus > 4"), where.Expr{})
	if err != nil || both.String() != "cpus > 4 and (type == g5.xlarge or type =~ g6.*) and zone != a" {
		t.Errorf("%q, %v", both, err)
	}
	if diff := cmp.Diff([]where.Name{where.CPUs, where.Type, where.Zone}, both.Names()); diff != "" {
		t.Error(diff)
	}
	if _, err := where.All(types, parsed(t, "type =~ p3.*")); err == nil || !strings.Contains(err.Error(), "no machine can be that") {
		t.Errorf("a contradiction is %v", err)
	}
	if _, err := where.OneOf(where.Type, "a", ""); err == nil {
		t.Error("an empty type is one")
	}
	for _, bad := range []string{"a\nb", "a\xff", "a'\"b"} {
		if _, err := where.OneOf(where.Type, bad); err == nil || fault.Hint(err) != "Use a glob in place of the letter: feature =~ a?b." {
			t.Errorf("%q is a type: %v", bad, err)
		}
	}
	var e where.Expr
	if err := e.UnmarshalText([]byte("zone == a")); err != nil || e.IsZero() {
		t.Errorf("%v", err)
	}
	if b, err := e.MarshalText(); err != nil || string(b) != "zone == a" {
		t.Errorf("%s, %v", b, err)
	}
}

// random is an expression and a machine in a small world, where contradictions and
// matches are frequent.
func random(r *rand.Rand, depth int) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	if depth == 0 || r.IntN(3) == 0 {
		switch r.IntN(4) {
		case 0:
			return "zone " + pick("== a", "!= a", "== b", "in (a, ab)", "not in (a, b)", "=~ a*", "!~ a*", "=~ *b", "=~ ?")
		case 1:
			return "feature " + pick("== a", "!= a", "in (a, b)", "not in (a, b)", "=~ a*", "!~ a*", "!~ ?")
		case 2:
			return "purchase " + pick("== spot", "!= spot", "=~ s*", "not in (spot, reserved)", "in (spot, on-demand)")
		}
		return "cpus " + pick("== 1", "!= 1", "< 2", "<= 2", "> 1", ">= 1", "in (1, 2)", "not in (0, 2)", "> 2")
	}
	switch r.IntN(5) {
	case 0:
		return "not (" + random(r, depth-1) + ")"
	case 1:
		return "(" + random(r, depth-1) + " or " + random(r, depth-1) + ")"
	}
	return "(" + random(r, depth-1) + " and " + random(r, depth-1) + ")"
}

func randomMachine(r *rand.Rand) where.Attributes {
	a := where.Attributes{}
	for name, values := range map[where.Name][]string{where.Zone: {"a", "b", "ab", "c"}, where.Purchase: {"spot", "on-demand", "reserved"}, where.CPUs: {"0", "1", "2", "3"}} {
		if r.IntN(4) > 0 {
			a[name] = []string{values[r.IntN(len(values))]}
		}
	}
	for i := r.IntN(4); i > 0; i-- {
		a[where.Feature] = append(a[where.Feature], []string{"a", "b", "ab"}[r.IntN(3)])
	}
	if a[where.Feature] == nil && r.IntN(2) == 0 {
		a[where.Feature] = []string{}
	}
	return a
}

// For random expressions and machines: what is refused as a contradiction is met by none,
// not turns a truth around, the canonical text and the normal form have the same truth,
// and more knowledge never changes a truth that was known.
func TestRandomExpressionsKeepTheirTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 4))
	refused := 0
	for range 5_000 {
		text, machine := random(r, 4), randomMachine(r)
		e, err := where.Parse(text)
		n, errNot := where.Parse("not (" + text + ")")
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "no machine can be that") {
				t.Fatal(err)
			}
			if errNot != nil {
				t.Fatalf("%s and its opposite are both refused", text)
			}
			if n.Eval(machine) == where.False {
				t.Fatalf("%s is refused, and %v meets it", text, machine)
			}
			continue
		}
		truth := e.Eval(machine)
		if errNot == nil && n.Eval(machine) != -truth {
			t.Fatalf("%s is %s for %v, and not of it %s", text, truth, machine, n.Eval(machine))
		}
		if again := parsed(t, e.String()); again.String() != e.String() || again.Eval(machine) != truth {
			t.Fatalf("%s is %s, and then %s", text, e, again)
		}
		if got := evalNormal(t, e.Normal(), machine); got != truth && !(truth == where.Unknown && got == where.False) {
			t.Fatalf("%s is %s for %v, and its normal form %s", text, truth, machine, got)
		}
		if (e.Unmet(machine) == "") != (truth == where.True) {
			t.Fatalf("%s is %s for %v, and said of it is %q", text, truth, machine, e.Unmet(machine))
		}
		for name := range machine {
			less := where.Attributes{}
			for n, v := range machine {
				if n != name {
					less[n] = v
				}
			}
			if before := e.Eval(less); before != where.Unknown && before != truth {
				t.Fatalf("%s is %s for %v, and %s without %s", text, truth, machine, before, name)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d were contradictions: the world is too large", refused)
	}
}

// evalNormal is the truth of a normal form. It may be False where the expression is
// Unknown: clauses that no machine can meet are left out.
func evalNormal(t *testing.T, all []where.Clause, a where.Attributes) where.Truth {
	truth := where.False
	for _, c := range all {
		truth = max(truth, parsed(t, c.String()).Eval(a))
	}
	return truth
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"type =~ p3.* and zone != us-east-1a", `not (cpus in (1, 2) or feature == "a 'b'")`, "memory>=1.5T&&!(gpu.name==\"NVIDIA  A 100\")", `type =~ p3.\*`, "network<1e-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := where.Parse(text)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q: %v is no refusal", text, err)
			}
			return
		}
		again, err := where.Parse(e.String())
		if err != nil || again.String() != e.String() {
			t.Fatalf("%q is %q, which is read as %q, %v", text, e, again, err)
		}
		if !e.IsZero() && e.Eval(nil) == where.True {
			t.Fatalf("%q is true of a machine of which nothing is known", text)
		}
		if len(e.Normal()) == 0 {
			t.Fatalf("%q has no clause", text)
		}
	})
}
