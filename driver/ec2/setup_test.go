package ec2

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/fault"
)

//go:embed testdata/stack.golden
var goldenStack string

var update = flag.Bool("update", false, "write the golden files anew")

// compare holds a text against a golden file.
func compare(t *testing.T, file, want, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != got {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

// digits is a scope of a project, with what a store of S3 says of the rights of agents.
var digits = driver.Scope{Store: "s3://bucket/jobs?region=eu-west-1", Project: "digits", Rights: `{"Version": "2012-10-17", "Statement": [{"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/jobs/digits/*"]}]}`}

func TestTheSetupIsTheOneThatWasLookedAt(t *testing.T) {
	t.Parallel()
	st, err := newStack(digits, "eu-west-1", options{})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal([]byte(st.Template()), &v); err != nil {
		t.Fatal(err)
	}
	text, _ := json.MarshalIndent(v, "", "  ") // it came from JSON
	compare(t, "testdata/stack.golden", goldenStack, string(text)+"\n")
}

// suiteSetup is a set-up in an account of its own, that the suite gives scopes without what a store says.
type suiteSetup struct {
	*Setup
	account fakeAccount
}

func withRights(s driver.Scope) driver.Scope {
	s.Rights, s.Args = digits.Rights, nil
	return s
}

func (u suiteSetup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	return u.Setup.Describe(ctx, withRights(s))
}

func (u suiteSetup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	return u.Setup.Apply(ctx, withRights(s), made)
}

func (u suiteSetup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	return u.Setup.Destroy(ctx, withRights(s), gone)
}

func newSetup(t *testing.T) suiteSetup {
	t.Helper()
	a := newAccount(t)
	return suiteSetup{&Setup{a.driver(t).engine, time.Millisecond}, a}
}

func TestTheSetupIsASetupOverAFake(t *testing.T) {
	t.Parallel()
	drivertest.RunSetup(t, drivertest.SetupPlace{
		Open:   func(t *testing.T) driver.Setup { return newSetup(t) },
		CutOff: func(u driver.Setup, n int) { u.(suiteSetup).account.Stacks.CutOff(n) },
		Occupy: func(u driver.Setup, _ driver.Scope) { u.(suiteSetup).account.Stacks.Occupy(true) },
	})
}

// A job finds its project's role and network by the names of project and store; what was built for it goes with the set-up, and what a
// command has left that was killed.
func TestAJobGetsTheRoleAndTheNetworkOfItsSetup(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	scope := digits
	scope.Store = "s3://bucket/jobs"
	c, err := u.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Setup.Apply(t.Context(), scope, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	name := setupName("digits", scope.Store)
	u.account.Stacks.Count = func(action string) bool { return action != "DescribeStackResources" }
	if made, err := c.findSetup(t.Context(), "digits", scope.Store); err != nil || made.profile != "" {
		t.Errorf("a user without the right to look names what it has: %+v, %v", made, err)
	}
	u.account.Stacks.Count = nil
	made, err := c.findSetup(t.Context(), "digits", scope.Store+"?region=eu-west-1")
	if err != nil || made.name != name || made.account != "123456789012" || made.profile != name+"-Profile-0A1B" || len(made.groups) != 1 || len(made.subnets) != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	b, err := u.engine.base(t.Context(), c, options{}, "digits", scope.Store)
	if err != nil || len(b.zones()) != 3 || b.profile != made.profile {
		t.Errorf("%+v, %v", b, err)
	}
	host, _, _ := strings.Cut(made.images(c).Prefix(), "/")
	for _, repository := range []string{name + "/drover/digits-1", "other"} {
		if err := c.images.MakeRepository(t.Context(), host, repository); err != nil {
			t.Fatal(err)
		}
	}
	half := api.Template{LaunchTemplateName: "drover-abcdefgh23456777-1", TagSpecification: []api.TagSpecification{{ResourceType: "launch-template", Tag: tags(map[string]string{"project": "digits"})}}}
	half.LaunchTemplateData.InstanceInitiatedShutdownBehavior, half.LaunchTemplateData.IamInstanceProfile.Name, half.LaunchTemplateData.MetadataOptions.HttpTokens = "terminate", "machines", "required"
	half.LaunchTemplateData.BlockDeviceMapping = []api.BlockDevice{{DeviceName: "/dev/xvda"}}
	half.LaunchTemplateData.BlockDeviceMapping[0].Ebs.DeleteOnTermination = true
	if err := c.CreateTemplate(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	if err := u.Setup.Destroy(t.Context(), scope, func(driver.Piece) {}); err != nil || len(u.account.Stacks.Names()) > 0 || len(u.account.Templates()) > 0 || !slices.Equal(u.account.Images.Repositories(), []string{"other"}) {
		t.Errorf("%v; left: %s, %s, %s", err, u.account.Stacks.Names(), u.account.Templates(), u.account.Images.Repositories())
	}
}

// A set-up in a network that is there makes none, and a later target up leaves it so.
func TestASetupUsesANetworkThatIsThere(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	scope := digits
	scope.Store, scope.Args = "s3://bucket/jobs", []string{"subnets=subnet-0a,subnet-0b", "security-groups=sg-0a", "wait=2h"}
	for range 2 {
		if err := u.Setup.Apply(t.Context(), scope, func(driver.Piece) {}); err != nil {
			t.Fatal(err)
		}
		pieces, err := u.Setup.Describe(t.Context(), scope)
		if err != nil || len(pieces) != 3 || slices.ContainsFunc(pieces, func(p driver.Piece) bool { return p.State != driver.PieceThere }) {
			t.Errorf("%+v, %v", pieces, err)
		}
		scope.Args = nil
	}
	c, err := u.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.findSetup(t.Context(), "digits", scope.Store)
	if err != nil || !slices.Equal(made.subnets, []string{"subnet-0a", "subnet-0b"}) || !slices.Equal(made.groups, []string{"sg-0a"}) || made.profile == "" {
		t.Errorf("%+v, %v", made, err)
	}
	if err := u.Setup.Destroy(t.Context(), scope, func(driver.Piece) {}); err != nil || len(u.account.Stacks.Names()) > 0 {
		t.Errorf("%v; left: %s", err, u.account.Stacks.Names())
	}
}

func TestASetupOfBadInputIsRefused(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	for _, test := range []struct {
		change func(*driver.Scope)
		want   string
		hint   string
	}{
		{func(s *driver.Scope) { s.Detail = "Ireland" }, "read target: ec2/Ireland names no region", "Write it as --on ec2, --on ec2/REGION, or --on ec2/ami/REGION."},
		{func(s *driver.Scope) { s.Store = "/data" }, "set up EC2: its agents open no store in /data", "Name a bucket: --store s3://bucket/prefix."},
		{func(s *driver.Scope) { s.Args = []string{"amy=x"} }, `read --target-arg "amy=x": EC2 has no such option here`, "Do you mean --target-arg ami=ami-0123456789abcdef0?"},
		{func(s *driver.Scope) { s.Rights = "" }, "set up EC2: read the rights on the store", ""},
	} {
		s := digits
		test.change(&s)
		if _, err := u.Setup.Describe(t.Context(), s); err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.ReplaceAll(fault.Hint(err), "`", "") != test.hint {
			t.Errorf("%v\n%s", err, fault.Hint(err))
		}
	}
}

// What a submitter is granted is what the driver asks for.
func TestPoliciesNameWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for whose, want := range map[driver.Party][]string{
		driver.Agents:     {"autoscaling:PutScheduledUpdateGroupAction", "autoscaling:TerminateInstanceInAutoScalingGroup", "ecr:BatchGetImage", "secretsmanager:GetSecretValue"},
		driver.Submitters: {"autoscaling:CreateAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup", "ec2:CreateLaunchTemplate", "ec2:DescribeInstances", "iam:PassRole", "secretsmanager:CreateSecret"},
	} {
		text, err := writePolicy(driver.Config{}, whose, driver.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range want {
			if !strings.Contains(text, `"`+action+`"`) {
				t.Errorf("%s: no %s", whose, action)
			}
		}
		if strings.Contains(text, `"ec2:*"`) || whose == driver.Agents && (strings.Contains(text, `"ec2:`) || strings.Contains(text, `"autoscaling:Create`) || strings.Contains(text, `"autoscaling:Update`)) {
			t.Errorf("%s may launch machines: %s", whose, text)
		}
	}
}
