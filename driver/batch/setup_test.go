package batch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// agentRights is what a store of S3 says of the rights of agents.
const agentRights = `{"Version": "2012-10-17", "Statement": [{"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/jobs/digits/*"]}]}`

// digits is a scope of a project.
var digits = driver.Scope{Store: "s3://bucket/jobs", Project: "digits", Rights: agentRights}

// accountSetup is a set-up in an account of its own.
type accountSetup struct {
	*Setup
	account fakeAccount
}

// suiteSetup is one that the suite gives scopes without what a store says.
type suiteSetup struct{ accountSetup }

func (u suiteSetup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	return u.Setup.Describe(ctx, completed(s))
}

func (u suiteSetup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	return u.Setup.Apply(ctx, completed(s), made)
}

func (u suiteSetup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	return u.Setup.Destroy(ctx, completed(s), gone)
}

// completed is a scope with agents' rights, and with a network that is there: one of its own has as many pieces
// again.
func completed(s driver.Scope) driver.Scope {
	s.Rights, s.Args = agentRights, []string{"subnets=subnet-1", "security-groups=sg-1"}
	return s
}

func newSetup(t *testing.T) accountSetup {
	t.Helper()
	a := newAccount(t)
	return accountSetup{&Setup{a.driver(t).engine, time.Millisecond}, a}
}

func TestTheSetupIsASetupOverAFake(t *testing.T) {
	t.Parallel()
	drivertest.RunSetup(t, drivertest.SetupPlace{
		Open:   func(t *testing.T) driver.Setup { return suiteSetup{newSetup(t)} },
		CutOff: func(u driver.Setup, n int) { u.(suiteSetup).account.Stacks.CutOff(n) },
		Occupy: func(u driver.Setup, _ driver.Scope) { u.(suiteSetup).account.Stacks.Occupy(true) },
	})
}

// offered is the queue that a job of the project digits is offered.
func offered(t *testing.T, d *Driver, detail string, spot job.Spot) string {
	t.Helper()
	o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: detail, Spot: spot, Labels: map[string]string{"project": "digits"}})
	if err != nil || !o.Fits {
		t.Fatalf("%+v, %v", o, err)
	}
	at, err := parseSite(o.Detail)
	if err != nil {
		t.Fatal(err)
	}
	return at.queue
}

// A job that names no queue gets that of its project's set-up, and the one for the machines that it asks for.
func TestAJobGetsTheQueueOfItsSetup(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	d := u.account.driver(t)
	name := setupName(digits, site{})
	for _, test := range []struct {
		detail string
		spot   job.Spot
		want   string
	}{
		{"", job.SpotAny, name}, {"", job.SpotOnly, name}, {"", job.SpotNever, name + "-on-demand"}, {"", job.SpotFirst, name + "-spot-first"},
		{"fargate", job.SpotAny, name + "-fargate"}, {"fargate", job.SpotOnly, name + "-fargate-spot"}, {"fargate-spot", job.SpotAny, name + "-fargate-spot"}, {"fargate-spot", job.SpotNever, name + "-fargate"},
		{name, job.SpotAny, name}, {name, job.SpotNever, name + "-on-demand"}, {name + "-on-demand", job.SpotAny, name + "-on-demand"},
	} {
		if got := offered(t, d, test.detail, test.spot); got != test.want {
			t.Errorf("--on batch/%s with spot %q: queue %s, want %s", test.detail, test.spot, got, test.want)
		}
	}
	gpu := digits
	gpu.Detail, gpu.Args = "gpu", []string{"machines=g5.xlarge", "zones=1"}
	if err := u.Apply(t.Context(), gpu, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	if a, b := offered(t, d, "", job.SpotAny), offered(t, d, "gpu", job.SpotNever); a != name || b != "gpu-on-demand" {
		t.Errorf("beside a set-up with a name: queues %s and %s", a, b)
	}
	if err := u.Destroy(t.Context(), gpu, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "fargate", Labels: map[string]string{"project": "other"}}); err != nil || o.Fits || o.Reason != "the project has no set-up with queues of Fargate in eu-west-1" || o.Hint != "Have one made: drover target up batch." {
		t.Errorf("Fargate without a set-up: %+v, %v", o, err)
	}
	if o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Labels: map[string]string{"project": "other"}}); err != nil || o.Fits || len(o.Choices) != 6 {
		t.Errorf("another project: %+v, %v", o, err)
	}

	r := u.account.request(t, 1)
	r.Needs.Detail, r.Needs.Args = name, nil
	u.account.Hold()
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if sent := u.account.Sent("registerjobdefinition"); !strings.Contains(sent, `"jobRoleArn":"arn:aws:iam::123456789012:role/`+name+"-AgentsRole-") || !strings.Contains(sent, `"awslogs-group":"/drover/`+name+`"`) {
		t.Errorf("the definition has neither the set-up's role nor its log group: %s", sent)
	}
	err := u.Destroy(t.Context(), digits, func(driver.Piece) {})
	if fault.KindOf(err) != fault.Invalid || err.Error() != "take away the set-up of AWS Batch: job drover-7fk2abcd7fk2abcd-1 in queue "+name+" has not ended" || fault.Hint(err) != "Wait for it, or end it with aws batch terminate-job." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	u.account.End()
	if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); err != nil || len(u.account.Stacks.Names()) > 0 || len(u.account.Definitions()) > 0 {
		t.Errorf("%v; left: stacks %q, definitions %q", err, u.account.Stacks.Names(), u.account.Definitions())
	}
}

// A queue of Fargate has definitions of its own: a task has one of some sizes, an address, and a role by which its
// image is pulled.
func TestFargateGetsWhatItTakes(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	u.account.Hold()
	d := u.account.driver(t)
	for _, test := range []struct {
		needs driver.Needs
		has   []string
	}{
		{driver.Needs{}, []string{`{"type":"VCPU","value":"1"}`, `{"type":"MEMORY","value":"3072"}`, `"assignPublicIp":"ENABLED"`, `"executionRoleArn":"arn:aws:iam::123456789012:role/drover-digits-`, `"platformCapabilities":["FARGATE"]`, `"onStatusReason":"Your Spot Task was interrupted*"`}},
		{driver.Needs{CPUs: 0.1, Memory: 100 << 20}, []string{`"value":"0.25"`, `"value":"512"`}},
		{driver.Needs{CPUs: 0.25, Memory: 1 << 30}, []string{`"value":"0.25"`, `"value":"2048"`}},
		{driver.Needs{CPUs: 0.5, Memory: 5 << 30}, []string{`"value":"1"`, `"value":"6144"`}},
		{driver.Needs{CPUs: 5, Memory: 17 << 30, Disk: 50<<30 + 1}, []string{`"value":"8"`, `"value":"20480"`, `"ephemeralStorage":{"sizeInGiB":51}`}},
		{driver.Needs{CPUs: 16, Memory: 119 << 30}, []string{`"value":"16"`, `"value":"122880"`}},
	} {
		test.needs.Agents, test.needs.Detail, test.needs.Labels = 1, "fargate", map[string]string{"project": "digits"}
		o, err := d.Offer(t.Context(), test.needs)
		if err != nil || !o.Fits {
			t.Fatalf("%+v, %v", o, err)
		}
		r := u.account.request(t, 1)
		r.Placement = u.account.Submitted() + 1
		r.Needs = test.needs
		r.Needs.Detail = o.Detail
		if _, err := d.Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.has {
			if sent := u.account.Sent("registerjobdefinition"); !strings.Contains(sent, want) {
				t.Errorf("%+v: the definition has no %s: %s", test.needs, want, sent)
			}
		}
	}
	for want, needs := range map[string]driver.Needs{
		"Fargate has no GPUs": {GPUs: 1}, "Fargate gives no other size to /dev/shm: --shm": {Place: driver.Place{Shm: 1 << 30}},
		"no task of Fargate is so large: the largest has 16 cores and 120 GB of memory": {CPUs: 16, Memory: 120 << 30}, "a task of Fargate has at most 200 GB of disk": {Disk: 201 << 30},
	} {
		needs.Agents, needs.Detail, needs.Labels = 1, "fargate", map[string]string{"project": "digits"}
		if o, err := d.Offer(t.Context(), needs); err != nil || o.Fits || o.Reason != want || o.Hint == "" {
			t.Errorf("%+v, %v; want %s", o, err, want)
		}
	}
	u.account.SetResources(map[string]any{"type": "FARGATE"})
	if o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: batchtest.Queue}); err != nil || o.Fits || o.Reason != "no role by which Fargate pulls images is named" || !strings.HasPrefix(o.Hint, "Name one with Amazon's policy AmazonECSTaskExecutionRolePolicy: ") {
		t.Errorf("%+v, %v", o, err)
	}
}

// Options are kept with the stack: a command without them changes nothing, and one with others changes what
// they are about.
func TestOptionsAreKeptWithTheStack(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	apply := func(args ...string) (made []string) {
		t.Helper()
		s := digits
		s.Args = args
		if err := u.Apply(t.Context(), s, func(p driver.Piece) { made = append(made, p.Kind) }); err != nil {
			t.Fatal(err)
		}
		return made
	}
	apply("max-vcpus=512", "zones=2", "job-role=arn:aws:iam::123456789012:role/of-jobs")
	if made := apply(); len(made) > 0 || !strings.Contains(u.account.Stacks.Template(setupName(digits, site{})), `"MaxvCpus":512`) {
		t.Errorf("a second command makes %q", made)
	}
	if made := apply("max-vcpus=1024"); len(made) != 4 || slices.ContainsFunc(made, func(kind string) bool { return kind != "compute environment" }) {
		t.Errorf("other options make %q", made)
	}
	if made := apply("zones=3"); !slices.Contains(made, "subnet") {
		t.Errorf("another zone makes %q", made)
	}
	apply("subnets=subnet-1,subnet-2", "security-groups=sg-1")
	if text := u.account.Stacks.Template(setupName(digits, site{})); strings.Contains(text, "AWS::EC2::VPC") || !strings.Contains(text, `"Subnets":["subnet-1","subnet-2"]`) {
		t.Errorf("with named subnets the template has a network: %s", text)
	}
}

// What CloudFormation says of a resource is said, and the same command goes on once it is mended.
func TestAStackThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	name := setupName(digits, site{})
	const full = "The maximum number of VPCs has been reached."
	u.account.Stacks.FailResource("Network", full)
	err := u.Apply(t.Context(), digits, func(driver.Piece) {})
	if fault.KindOf(err) != fault.Invalid || err.Error() != "make stack "+name+": it is DELETE_COMPLETE: network Network: "+full || fault.Hint(err) != "Mend it, and type the same command again: CloudFormation's console has all events of the stack." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	u.account.Stacks.FailResource("Network", "")
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	u.account.Stacks.FailResource("SpotMachines", "MaxvCpus is too large")
	s := digits
	s.Args = []string{"max-vcpus=999999"}
	if err := u.Apply(t.Context(), s, func(driver.Piece) {}); err == nil || err.Error() != "make stack "+name+": it is UPDATE_ROLLBACK_COMPLETE: compute environment SpotMachines: MaxvCpus is too large" {
		t.Error(err)
	}
	u.account.Stacks.FailResource("SpotMachines", "")
	u.account.Stacks.KeepResource("Network", "The vpc has dependencies and cannot be deleted.")
	if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); err == nil || err.Error() != "delete stack "+name+": it is DELETE_FAILED: network Network: The vpc has dependencies and cannot be deleted." {
		t.Error(err)
	}
	u.account.Stacks.KeepResource("Network", "")
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil { // what is half gone is deleted, and made anew
		t.Fatal(err)
	}
	if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); err != nil || len(u.account.Stacks.Names()) > 0 {
		t.Errorf("%v, %q", err, u.account.Stacks.Names())
	}
}

func TestASetupOfBadInputIsRefused(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	for what, test := range map[string]struct {
		change     func(*driver.Scope)
		want, hint string
	}{
		"a store on another cloud":  {func(s *driver.Scope) { s.Store = "gs://bucket" }, "set up AWS Batch: its agents open no store in gs://bucket", "Name a bucket: `--store s3://bucket/prefix`."},
		"an option that is unknown": {func(s *driver.Scope) { s.Args = []string{"max-vcpu=3"} }, `read --target-arg "max-vcpu=3": AWS Batch has no such option here`, "Do you mean `--target-arg max-vcpus=512`?"},
		"a value of another form":   {func(s *driver.Scope) { s.Args = []string{"max-vcpus=many"} }, `read --target-arg "max-vcpus=many": its value is not of this form`, "Write it as `--target-arg max-vcpus=512`."},
		"an address that is none":   {func(s *driver.Scope) { s.Args = []string{"reads=data/images"} }, `read --target-arg "reads=data/images": its value is not of this form`, "Write it as `--target-arg reads=s3://data/images,s3://models`."},
		"a long name":               {func(s *driver.Scope) { s.Detail = strings.Repeat("x", 101) }, "set up AWS Batch: the names of other queues begin with " + strings.Repeat("x", 101) + ", which has more than 100 letters", "Choose a shorter one."},
		"subnets alone":             {func(s *driver.Scope) { s.Args = []string{"subnets=subnet-1"} }, "set up AWS Batch: of subnets and security groups only one is given", "Give both, as in `--target-arg subnets=subnet-0a1b --target-arg security-groups=sg-0a1b`, or neither."},
		"a name that is no queue's": {func(s *driver.Scope) { s.Detail = "-x" }, "read target: batch/-x names no queue", "Write it as `--on batch/QUEUE`, or `--on batch/QUEUE@REGION`."},
		"a queue of something else": {func(s *driver.Scope) { s.Detail = "train" }, "set up AWS Batch: queue train is a queue that this set-up did not make", "Use it as it is, `--on batch/train`, or choose another name."},
	} {
		s := digits
		test.change(&s)
		err := u.Apply(t.Context(), s, func(driver.Piece) {})
		if fault.KindOf(err) != fault.Invalid || err.Error() != test.want || strings.ReplaceAll(fault.Hint(err), "`", "") != strings.ReplaceAll(test.hint, "`", "") {
			t.Errorf("%s: %v\n%s", what, err, fault.Hint(err))
		}
	}
	if err := u.Apply(t.Context(), driver.Scope{Store: "s3://b", Project: "other", Detail: "train"}, nil); err == nil {
		t.Error("a queue that is there was made again")
	}
	if all := u.account.Stacks.Names(); len(all) > 0 {
		t.Errorf("stacks were made: %q", all)
	}
}

// Each right that the command lacks is named.
func TestARightToSetUpThatIsLackingIsNamed(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	u.account.Stacks.CutOff(0)
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "create stack "+setupName(digits, site{})+": the server says 403 AccessDenied: ") {
		t.Error(err)
	}
	u.account.Stacks.CutOff(-1)
	u.account.Deny("describejobqueues")
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "describe job queues: the server says 403 ") {
		t.Error(err)
	}
	u.account.Deny("")
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	u.account.Stacks.CutOff(0)
	s := digits
	s.Args = []string{"disk=100"}
	if err := u.Apply(t.Context(), s, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "update stack ") {
		t.Error(err)
	}
	if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "delete stack ") {
		t.Error(err)
	}
	u.account.Stacks.CutOff(-1)
	name := setupName(digits, site{})
	r := u.account.request(t, 1)
	r.Needs.Detail, r.Needs.Args = name, nil
	u.account.Hold()
	if _, err := u.account.driver(t).Start(t.Context(), r); err != nil { // so that there is a definition
		t.Fatal(err)
	}
	u.account.End()
	for _, test := range [][2]string{{"listjobs", "list the jobs of queue "}, {"describejobdefinitions", "look for job definitions: "}, {"deregisterjobdefinition", "deregister a job definition: "},
		{"DescribeStacks", "describe stack " + name + ": "}, {"DescribeStackResources", "describe the resources of a stack: "}, {"GetTemplate", "read the template of stack " + name + ": "}} {
		u.account.Deny(test[0])
		if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), test[1]) {
			t.Errorf("%s: %v", test[0], err)
		}
	}
	u.account.Deny("DescribeStackEvents")
	u.account.Stacks.KeepResource("SpotQueue", "it is in use")
	if err := u.Destroy(t.Context(), digits, func(driver.Piece) {}); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "read the events of a stack: ") {
		t.Error(err)
	}
}

// A stack that is never as it should be is not changed for ever.
func TestAStackThatOthersChangeIsGivenUp(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	u.account.Stacks.ChangeAgain("Resources: in YAML")
	err := u.Apply(t.Context(), digits, func(driver.Piece) {})
	if fault.KindOf(err) != fault.Full || err.Error() != "set up: stack "+setupName(digits, site{})+" changes again and again" || fault.Hint(err) != "Try again when no other command changes it." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

// Without what the store's owner writes there would be a role that may do nothing.
func TestASetupWithoutRightsOnTheStoreIsABug(t *testing.T) {
	t.Parallel()
	s := digits
	s.Rights = ""
	if err := newSetup(t).Apply(t.Context(), s, func(driver.Piece) {}); fault.KindOf(err) != fault.Bug || !strings.HasPrefix(err.Error(), "set up AWS Batch: read the rights on the store: ") {
		t.Error(err)
	}
}

// An answer that is cut off is asked for again.
func TestAnAnswerThatIsCutOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			_, _ = w.Write([]byte(`{"jobQueues": [`))
			return
		}
		a.Server.ServeHTTP(w, r)
	}))
	defer server.Close()
	e := a.driver(t).engine
	e.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: batchtest.Region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String(server.URL)
		c := newClient(account, region, time.Minute)
		return c, c.region, nil
	})
	c, err := e.clients.In(t.Context(), batchtest.Region)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := c.queues(t.Context(), nil); err != nil || len(all) != 1 || asked != 3 {
		t.Errorf("%d queues after %d requests, %v", len(all), asked, err)
	}
	asked, c.send.Wait = -1_000_000, 500*time.Millisecond
	if _, err := c.queues(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), "describe job queues: the server's answer cannot be read: ") {
		t.Error(err)
	}
}

// Two commands that set up one project at once make one stack, and both end well.
func TestTwoThatSetUpAtOnceMakeOneStack(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	done := make(chan error)
	for range 3 {
		go func() { done <- u.Apply(t.Context(), digits, func(driver.Piece) {}) }()
	}
	if err := errors.Join(<-done, <-done, <-done); err != nil || len(u.account.Stacks.Names()) != 1 {
		t.Errorf("%v, %q", err, u.account.Stacks.Names())
	}
}

// Images that are built for jobs of a set-up lie in repositories that go with it; those of others stay.
func TestRepositoriesOfImagesGoWithTheSetup(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	if err := u.Apply(t.Context(), digits, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	d, name := u.account.driver(t), setupName(digits, site{})
	needs := driver.Needs{Agents: 1, Labels: map[string]string{"project": "digits"}}
	o, err := d.Offer(t.Context(), needs)
	if want := "123456789012.dkr.ecr.eu-west-1.amazonaws.com/" + name; err != nil || o.Registry != want {
		t.Fatalf("images are pushed to %q, want %q; %v", o.Registry, want, err)
	}
	needs.Detail = batchtest.Queue
	if o, err := d.Offer(t.Context(), needs); err != nil || o.Registry != "" {
		t.Errorf("a queue of no set-up has the registry %q; %v", o.Registry, err)
	}
	c, err := d.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(o.Registry, "/")
	for _, repository := range []string{name + "/drover/digits-1", name + "x/drover/digits-1", "other"} {
		if err := c.images.MakeRepository(t.Context(), host, repository); err != nil {
			t.Fatal(err)
		}
	}
	pieces, err := u.Describe(t.Context(), digits)
	if last := pieces[len(pieces)-1]; err != nil || last.Kind != "image repository" || last.Name != name+"/drover/digits-1" || last.State != driver.PieceThere {
		t.Errorf("%+v, %v", last, err)
	}
	u.account.Images.Deny("DescribeRepositories")
	if _, err := u.Describe(t.Context(), digits); err != nil {
		t.Errorf("a user without rights to ECR: %v", err)
	}
	u.account.Images.Deny("")
	told := 0
	if err := u.Destroy(t.Context(), digits, func(p driver.Piece) {
		if p.Kind == "image repository" {
			told++
		}
	}); err != nil || told != 1 {
		t.Errorf("told of %d repositories, %v", told, err)
	}
	if left := u.account.Images.Repositories(); !slices.Equal(left, []string{name + "x/drover/digits-1", "other"}) {
		t.Errorf("there are left %s", left)
	}
}
