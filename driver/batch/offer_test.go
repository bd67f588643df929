package batch

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

func TestAnOfferSaysWhatAQueueHas(t *testing.T) {
	t.Parallel()
	condition := func(text string) where.Expr {
		e, err := where.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	mount := driver.Place{Mounts: []job.Mount{{Source: "/data", Target: "/data"}}}
	of := func(types ...string) func(*batchtest.Server) {
		return func(s *batchtest.Server) { s.SetResources(map[string]any{"instanceTypes": types}) }
	}
	for name, row := range map[string]struct {
		fake   func(*batchtest.Server)
		needs  driver.Needs
		reason string // "": it fits
		hint   string
	}{
		"a queue in full":  {needs: driver.Needs{Agents: 2, Detail: "train@eu-west-1/123456789012"}},
		"arch and region":  {needs: driver.Needs{Agents: 1, Where: condition("arch == amd64 and region == eu-west-1 and purchase == on-demand")}},
		"another name":     {needs: driver.Needs{Agents: 1, Detail: "trian"}, reason: "there is no job queue trian in eu-west-1", hint: "Use --on batch/train."},
		"no such name":     {needs: driver.Needs{Agents: 1, Detail: "gpus"}, reason: "there is no job queue gpus in eu-west-1", hint: "See those that there are: drover offers batch."},
		"another account":  {needs: driver.Needs{Agents: 1, Detail: "train@eu-west-1/210987654321"}, reason: "the job's queue is in account 210987654321, and these credentials are of account 123456789012", hint: "Use credentials of account 210987654321: AWS_PROFILE."},
		"no role":          {fake: func(s *batchtest.Server) { s.SetQueue(map[string]any{"tags": nil}) }, needs: driver.Needs{Agents: 1}, reason: "no role for the agents is named", hint: "Name the role that opens the store: --target-arg job-role=arn:aws:iam::ACCOUNT:role/NAME, or once for all in the queue's tag drover-job-role; what it must allow: drover doctor --policy agents."},
		"a disabled queue": {fake: func(s *batchtest.Server) { s.SetQueue(map[string]any{"state": "DISABLED"}) }, needs: driver.Needs{Agents: 1}, reason: "queue train is DISABLED and VALID: JobQueue Healthy", hint: "See it in the console of AWS Batch."},
		"an invalid one": {fake: func(s *batchtest.Server) {
			s.SetEnvironment(map[string]any{"status": "INVALID", "statusReason": "CLIENT_ERROR - no role"})
		}, needs: driver.Needs{Agents: 1}, reason: "compute environment machines is INVALID: CLIENT_ERROR - no role", hint: "See it in the console of AWS Batch."},
		"the owner's machines": {fake: func(s *batchtest.Server) {
			s.SetEnvironment(map[string]any{"type": "UNMANAGED", "computeResources": nil})
		}, needs: driver.Needs{Agents: 1}, reason: "queue train is of machines that AWS Batch does not manage by ECS: machines", hint: "Use a queue of EC2 machines or of Fargate."},
		"where, with types":    {fake: of("g5.xlarge", "g5.2xlarge"), needs: driver.Needs{Agents: 1, Where: condition("family == g5 and type =~ g5.*")}},
		"where, one of types":  {fake: of("g5.xlarge", "g6.xlarge"), needs: driver.Needs{Agents: 1, Where: condition("family == g5")}, reason: "of the machines of queue train it is not known that they are what --where says: family == g5", hint: "Leave --where out, and use a queue of such machines."},
		"types, all asked for": {fake: of("g5.xlarge", "g6"), needs: driver.Needs{Agents: 1, Machine: []string{"g5.*", "g6.*"}}},
		"types, not all":       {fake: of("g5.xlarge", "p5"), needs: driver.Needs{Agents: 1, Machine: []string{"g5.*"}}, reason: "queue train has other machines too: --machine g5.*", hint: "Use a queue of such machines: drover target up batch/NAME --target-arg machines=g5.xlarge makes one."},
		"spot":                 {needs: driver.Needs{Agents: 1, Spot: job.SpotOnly}, reason: "the first compute environment of queue train is of on-demand machines", hint: "Leave --spot out, or use a queue of spot capacity."},
		"on demand":            {fake: func(s *batchtest.Server) { s.SetResources(map[string]any{"type": "SPOT"}) }, needs: driver.Needs{Agents: 1, Spot: job.SpotNever}, reason: "the first compute environment of queue train is spot capacity", hint: "Leave --on-demand out, or use another queue."},
		"where":                {needs: driver.Needs{Agents: 1, Where: condition("type =~ p3.*")}, reason: "of the machines of queue train it is not known that they are what --where says: type =~ p3.*", hint: "Leave --where out, and use a queue of such machines."},
		"a size":               {needs: driver.Needs{Agents: 1, Where: condition("cpus < 8")}, reason: "of the machines of queue train it is not known that they are what --where says: cpus < 8", hint: "Leave --where out, and use a queue of such machines."},
		"a type":               {needs: driver.Needs{Agents: 1, Machine: []string{"g5.*", "g6.*"}}, reason: "queue train has other machines too: --machine g5.*,g6.*", hint: "Use a queue of such machines: drover target up batch/NAME --target-arg machines=g5.xlarge makes one."},
		"disk":                 {needs: driver.Needs{Agents: 1, Disk: 1 << 30}, reason: "AWS Batch holds no job to an amount of disk", hint: "Leave --disk out: the disk is that of the machines' launch template."},
		"a folder":             {needs: driver.Needs{Agents: 1, Place: mount}, reason: "containers on AWS Batch see no folder of this machine: --mount /data", hint: "Give it as an input: -i FOLDER."},
		"more than a queue":    {needs: driver.Needs{Agents: 1, CPUs: 300}, reason: "the queue may use 256 cores in all, and an agent needs 300", hint: "Ask for less: --cpus."},
		"more than a kind":     {needs: driver.Needs{Agents: 1, GPUs: 17}, reason: "no machine of EC2 is so large: the largest have 1920 cores, 32 TB of memory, 16 GPUs", hint: "Ask for less: --cpus, --memory, --gpus."},
		"more than an array":   {needs: driver.Needs{Agents: 10_001}, reason: "start agents: an array of AWS Batch has at most 10,000 jobs, not 10001", hint: "Ask for fewer: --workers 10000."},
		"a Python of today":    {needs: driver.Needs{Agents: 1, Place: driver.Place{Python: "2.7"}}, reason: "choose image: there is none for Python 2.7", hint: "Name an image that has it: --image IMAGE."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			if row.fake != nil {
				row.fake(a.Server)
			}
			o, err := a.driver(t).Offer(t.Context(), row.needs)
			if err != nil || o.Fits != (row.reason == "") || o.Reason != row.reason || strings.ReplaceAll(o.Hint, "`", "") != row.hint {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

func TestAPlanNamesTheQueueAndWhatAgentsGet(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	o, err := a.driver(t).Offer(t.Context(), driver.Needs{Agents: 1, Place: driver.Place{Nodes: 2}})
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Offer{Fits: true, Detail: "train@eu-west-1/123456789012", Machine: "AWS Batch, queue train in eu-west-1: on-demand machines of default_x86_64, up to 256 cores", System: "linux/amd64", Cores: 256,
		Identity: "the role arn:aws:iam::123456789012:role/train", Notes: []string{"each agent has 1 core and 2048 MB of memory: --cpus and --memory ask for more", "nodes begin one by one, as there are machines"}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// With several queues one must be named; they are the choices.
func TestAQueueIsChosenAmongSeveral(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.AddQueue("gpus")
	o, err := a.driver(t).Offer(t.Context(), driver.Needs{Agents: 1})
	if err != nil || o.Fits || o.Machine != "AWS Batch in eu-west-1" || o.Reason != "no queue is named" || o.Hint != "Name one: --on batch/QUEUE; drover offers batch shows those that there are." {
		t.Errorf("%+v, %v", o, err)
	}
	want := []driver.Choice{{Detail: "gpus@eu-west-1/123456789012", Machine: "gpus in eu-west-1"}, {Detail: "train@eu-west-1/123456789012", Machine: "train in eu-west-1"}}
	if diff := cmp.Diff(want, o.Choices); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
	if o, err := a.driver(t).Offer(t.Context(), driver.Needs{}); err != nil || !o.Fits || len(o.Choices) != 2 {
		t.Errorf("about the region alone: %+v, %v", o, err)
	}
	a.RemoveQueue("gpus")
	a.RemoveQueue(batchtest.Queue)
	if o, err := a.driver(t).Offer(t.Context(), driver.Needs{Agents: 1}); err != nil || o.Fits || o.Reason != "there is no job queue in eu-west-1" || o.Hint != "Have one made: drover target up batch." {
		t.Errorf("without a queue: %+v, %v", o, err)
	}
}

func TestOptionsTypedWrongAreRefused(t *testing.T) {
	t.Parallel()
	for text, row := range map[string][2]string{
		"job-rol=x":        {`read --target-arg "job-rol=x": AWS Batch has no such option here`, "Do you mean --target-arg job-role=arn:aws:iam::123456789012:role/train?"},
		"colour=red":       {`read --target-arg "colour=red": AWS Batch has no such option here`, "There are entrypoint, execution-role, job-role, log-group, register-job-definition, submit-job: docs/how-to/batch.md."},
		"job-role=train":   {`read --target-arg "job-role=train": it is not the ARN of a role`, "Write it as --target-arg job-role=arn:aws:iam::123456789012:role/train."},
		"execution-role=x": {`read --target-arg "execution-role=x": it is not the ARN of a role`, "Write it as --target-arg execution-role=arn:aws:iam::123456789012:role/pull."},
		"log-group=":       {`read --target-arg "log-group=": it has no value`, "Write it as --target-arg log-group=/aws/batch/job."},
	} {
		_, err := newAccount(t).driver(t).Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{text}})
		if err == nil || err.Error() != row[0] || fault.KindOf(err) != fault.Invalid || strings.ReplaceAll(fault.Hint(err), "`", "") != row[1] {
			t.Errorf("%s: %v\n%s", text, err, fault.Hint(err))
		}
	}
	if _, err := newAccount(t).driver(t).Offer(t.Context(), driver.Needs{Agents: 1, Detail: "train@nowhere!"}); err == nil || err.Error() != "read target: batch/train@nowhere! names no queue" ||
		strings.ReplaceAll(fault.Hint(err), "`", "") != "Write it as --on batch/QUEUE, or --on batch/QUEUE@REGION." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestAnImageThatTakesTheCommandIsRefused(t *testing.T) {
	t.Parallel()
	o, err := newAccount(t).driver(t).Offer(t.Context(), driver.Needs{Agents: 1, Place: driver.Place{Image: "amazon/aws-cli:2", Entrypoint: []string{"/usr/local/bin/aws"}}})
	if err != nil || o.Fits || o.Reason != "the image's ENTRYPOINT /usr/local/bin/aws takes the command, and AWS Batch cannot replace it" ||
		strings.ReplaceAll(o.Hint, "`", "") != "Use an image without one; or, where it runs the words that it is given, say --target-arg entrypoint=passes." {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := parseOptions([]string{"entrypoint=no"}); fault.KindOf(err) != fault.Invalid || err.Error() != `read --target-arg "entrypoint=no": it has another value than passes` {
		t.Error(err)
	}
}

// What the account may use at once is held against what a job asks for.
func TestAQuotaOfTheAccountIsHeldAgainstTheNeeds(t *testing.T) {
	t.Parallel()
	const name = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
	for _, test := range []struct {
		cores        float64
		agents       int
		kind         string
		change       func(a fakeAccount)
		reason, hint string
		note         string
	}{
		{cores: 10, agents: 5},
		{cores: 10, agents: 100, note: `the account's quota "` + name + `" is 10 cores in eu-west-1: at most 5 of 100 agents run at once`},
		{cores: 1, agents: 100, reason: `the account's quota "` + name + `" is 1 cores in eu-west-1, and an agent needs 2`,
			hint: "Ask AWS for more: aws service-quotas request-service-quota-increase --region eu-west-1 --service-code ec2 --quota-code L-34B43A08 --desired-value 200."},
		{cores: 1, agents: 100, change: func(a fakeAccount) { a.Deny("ListServiceQuotas") }},
		{cores: 1, agents: 100, change: func(a fakeAccount) {
			a.SetResources(map[string]any{"instanceTypes": []string{"m5.large", "g5.xlarge"}})
		}},
		{cores: 1, agents: 100, change: func(a fakeAccount) {
			a.SetResources(map[string]any{"instanceTypes": []string{"m5.large", "trn1.2xlarge"}})
		}},
		{cores: 1, agents: 100, change: func(a fakeAccount) { a.SetResources(map[string]any{"type": "FARGATE", "instanceTypes": nil}) }},
		{cores: 1, agents: 100, change: func(a fakeAccount) {
			a.SetResources(map[string]any{"type": "FARGATE", "instanceTypes": nil})
			a.Quotas.Set("Fargate On-Demand vCPU resource count", 6)
		}, note: `the account's quota "Fargate On-Demand vCPU resource count" is 6 cores in eu-west-1: at most 3 of 100 agents run at once`},
	} {
		a := newAccount(t)
		a.Quotas.Set(name, test.cores)
		if test.change != nil {
			test.change(a)
		}
		o, err := a.driver(t).Offer(t.Context(), driver.Needs{Agents: test.agents, Detail: "train", CPUs: 2, Memory: 4 << 30, Args: []string{"execution-role=arn:aws:iam::123456789012:role/pull"}})
		if err != nil || o.Fits != (test.reason == "") || o.Reason != test.reason || o.Hint != test.hint || test.note != "" && !slices.Contains(o.Notes, test.note) || test.note == "" && strings.Contains(strings.Join(o.Notes, ""), "quota") {
			t.Errorf("%d agents with a quota of %g: %+v, %v", test.agents, test.cores, o, err)
		}
	}
}
