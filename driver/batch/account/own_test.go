package account

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// The compute environment and the queue of an article from the time before drover, as its author wrote them for AWS's own tool.
const (
	articleEnvironment = `{"computeEnvironmentName":"TrainModel","type":"MANAGED","state":"ENABLED","computeResources":{"type":"SPOT","spotIamFleetRole":"arn:aws:iam::123456789012:role/aws-batch-spot-fleet-role",
  "minvCpus":0,"maxvCpus":16,"desiredvCpus":0,"instanceTypes":["g4dn.xlarge"],"imageId":"ami-03cf127a","bidPercentage":50,"subnets":["subnet-eb56bc1b56a3d0919"],"securityGroupIds":["sg-21e406771693bdb6e"],
  "ec2KeyPair":"kp","instanceRole":"ecsInstanceRole","tags":{"owner":"ann"}},"serviceRole":"AWSBatchServiceRole"}`
	articleQueue = `{"jobQueueName":"TrainModelQueue","state":"ENABLED","priority":1,"computeEnvironmentOrder":[{"order":1,"computeEnvironment":"TrainModel"},{"order":2,"computeEnvironment":"spare"}]}`
)

// ownStack is the stack of files, for a queue.
func ownStack(t *testing.T, queue string, args ...string) (stack.Stack, error) {
	t.Helper()
	all, err := MergeOptions(args, nil)
	if err != nil {
		return stack.Stack{}, err
	}
	kept, err := SplitOptions(JoinOptions(all))
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseOptions(kept)
	if err != nil {
		return stack.Stack{}, err
	}
	return Stack("drover-TrainModelQueue-0a1b2c", digits, queue, "us-west-1", o)
}

// kinds are the IDs of a stack's resources.
func kinds(st stack.Stack) (all []string) {
	for _, r := range st.Resources {
		all = append(all, r.ID)
	}
	return all
}

// What the files say is made as they say it, under their names; drover adds its tags, and the role of agents.
func TestFilesOfAWSsToolAreMadeAsTheyAre(t *testing.T) {
	t.Parallel()
	st, err := ownStack(t, "TrainModelQueue", givesEnvironment+"="+articleEnvironment, givesQueue+"="+articleQueue)
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(st); !slices.Equal(got, []string{"Logs", "AgentsRole", "Environment", "Queue"}) {
		t.Errorf("it has %s", got)
	}
	var template struct {
		Resources map[string]struct{ Properties json.RawMessage }
	}
	if err := json.Unmarshal([]byte(st.Template()), &template); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"Environment": `{"ComputeEnvironmentName":"TrainModel","Type":"MANAGED","State":"ENABLED","ServiceRole":"AWSBatchServiceRole","Tags":{"managed-by":"drover","drover-set-up":"drover-TrainModelQueue-0a1b2c"},
		  "ComputeResources":{"Type":"SPOT","SpotIamFleetRole":"arn:aws:iam::123456789012:role/aws-batch-spot-fleet-role","MinvCpus":0,"MaxvCpus":16,"DesiredvCpus":0,"InstanceTypes":["g4dn.xlarge"],"ImageId":"ami-03cf127a","BidPercentage":50,
		  "Subnets":["subnet-eb56bc1b56a3d0919"],"SecurityGroupIds":["sg-21e406771693bdb6e"],"Ec2KeyPair":"kp","InstanceRole":"ecsInstanceRole","Tags":{"owner":"ann"}}}`,
		"Queue": `{"JobQueueName":"TrainModelQueue","State":"ENABLED","Priority":1,"ComputeEnvironmentOrder":[{"Order":1,"ComputeEnvironment":{"Ref":"Environment"}},{"Order":2,"ComputeEnvironment":"spare"}],
		  "Tags":{"managed-by":"drover","drover-set-up":"drover-TrainModelQueue-0a1b2c","drover-project":"digits","drover-store":"s3://bucket/jobs","drover-purchase":"spot",
		  "drover-job-role":{"Fn::GetAtt":["AgentsRole","Arn"]},"drover-log-group":"/drover/drover-TrainModelQueue-0a1b2c"}}`,
	} {
		var w, g any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(template.Resources[id].Properties, &g); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, g); d != "" {
			t.Errorf("%s (-want +got):\n%s", id, d)
		}
	}
}

// What files leave out is drover's: a network, the role of machines, names.
func TestWhatFilesLeaveOutIsDrovers(t *testing.T) {
	t.Parallel()
	network := []string{"Network", "Subnet1", "Subnet2"}
	for _, test := range []struct {
		args []string
		want []string // IDs
		not  []string
	}{
		{[]string{givesEnvironment + `={"type":"MANAGED","computeResources":{"type":"EC2","maxvCpus":4,"instanceTypes":["optimal"]}}`}, append(network, "MachinesProfile", "Environment", "Queue"), []string{"FargateRole"}},
		{[]string{givesEnvironment + `={"type":"MANAGED","computeResources":{"type":"FARGATE","maxvCpus":4}}`, "subnets=subnet-1", "security-groups=sg-1"}, []string{"FargateRole", "Environment", "Queue"}, append(network, "MachinesProfile")},
		{[]string{givesQueue + `={"priority":9,"computeEnvironmentOrder":[{"order":1,"computeEnvironment":"spare"}]}`}, []string{"AgentsRole", "Queue"}, append(network, "Environment")},
	} {
		st, err := ownStack(t, "train", test.args...)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		got := kinds(st)
		for _, id := range test.want {
			if !slices.Contains(got, id) {
				t.Errorf("%s: no %s in %s", test.args, id, got)
			}
		}
		for _, id := range test.not {
			if slices.Contains(got, id) {
				t.Errorf("%s: %s in %s", test.args, id, got)
			}
		}
	}
}

func TestFilesThatAreNoRequestsAreRefused(t *testing.T) {
	t.Parallel()
	many := `{"tags":{"a":"` + strings.Repeat("x", mostKept) + `"}}`
	for _, test := range []struct {
		queue string
		args  []string
		want  string
		hint  string
	}{
		{"", []string{givesQueue + "=" + articleQueue}, "set up AWS Batch: the file of the job queue names TrainModelQueue", "Name the same one: drover target up batch/TrainModelQueue."},
		{"other", []string{givesQueue + "=" + articleQueue}, "set up AWS Batch: the file of the job queue names TrainModelQueue", "Name the same one: drover target up batch/TrainModelQueue."},
		{"", []string{givesEnvironment + "=" + articleEnvironment}, "set up AWS Batch: the job queue has no name", "Name it: drover target up batch/NAME."},
		{"train", []string{givesQueue + `={"priority":1}`}, "set up AWS Batch: the file of job queue train names no compute environment", "Give the file of a compute environment too: --target-arg create-compute-environment=@FILE."},
		{"train", []string{givesEnvironment + `={"computeResources":{"instanceType":["x"]}}`}, `read --target-arg create-compute-environment: json: unknown field "instanceType"`, "Do you mean instanceTypes?"},
		{"train", []string{givesQueue + `={"priority":1} x`}, "read --target-arg create-job-queue: invalid character 'x' after top-level value", "Give it as AWS's own tool takes it: --target-arg create-job-queue=@FILE."},
		{"train", []string{givesEnvironment + "=" + articleEnvironment, "machines=g5.xlarge"}, "set up AWS Batch: machines is of no effect beside create-compute-environment and create-job-queue", "Say it in the file of the compute environment."},
		{"train", []string{givesEnvironment + "=" + many}, "set up AWS Batch: the options have 4150 bytes, and CloudFormation keeps 4096 with a stack", "Leave out of the files what they need not say."},
	} {
		_, err := ownStack(t, test.queue, test.args...)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.ReplaceAll(fault.Hint(err), "`", "") != test.hint {
			t.Errorf("%.80s: %v\n%s", test.args, err, fault.Hint(err))
		}
	}
}

// A stack of an earlier drover, or one that a user has changed.
func TestOptionsThatAStackDoesNotKeepInThisFormAreRefused(t *testing.T) {
	t.Parallel()
	_, err := SplitOptions("machines=g5.xlarge")
	if err == nil || !strings.HasPrefix(err.Error(), `set up AWS Batch: read the options of the stack: "machines=g5.xlarge"`) || fault.Hint(err) != "Take it away, and set it up anew." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}
