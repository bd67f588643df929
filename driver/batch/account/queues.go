package account

import (
	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
)

// setupEnvironments are the compute environments of a set-up. A strategy is that of machines: Fargate has none.
var setupEnvironments = []struct{ id, suffix, kind, strategy string }{
	{"SpotMachines", "-spot", "SPOT", "SPOT_PRICE_CAPACITY_OPTIMIZED"},
	{"OnDemandMachines", "-on-demand", "EC2", "BEST_FIT_PROGRESSIVE"},
	{"Fargate", "-fargate", "FARGATE", ""},
	{"FargateSpot", "-fargate-spot", "FARGATE_SPOT", ""},
}

// setupQueues are its queues, each with the environments that it tries in their order.
var setupQueues = []struct {
	id, suffix, purchase string
	below                []string
}{
	{"SpotQueue", "", Spot, []string{"SpotMachines"}},
	{"OnDemandQueue", "-on-demand", OnDemand, []string{"OnDemandMachines"}},
	{"SpotFirstQueue", "-spot-first", SpotFirst, []string{"SpotMachines", "OnDemandMachines"}},
	{"FargateQueue", "-fargate", Fargate, []string{"Fargate"}},
	{"FargateSpotQueue", "-fargate-spot", FargateSpot, []string{"FargateSpot"}},
}

// built is what environments and queues of a set-up have in common.
type built struct {
	name    string // the stack's
	queue   string // that of the queue of spot capacity, with which the other names begin
	scope   driver.Scope
	options Options
	subnets []any
	groups  []any
}

func (b built) environments() (all []stack.Resource) {
	for _, e := range setupEnvironments {
		resources := map[string]any{"Type": e.kind, "MaxvCpus": b.options.mostCores, "Subnets": b.subnets, "SecurityGroupIds": b.groups}
		properties := map[string]any{"ComputeEnvironmentName": b.queue + e.suffix, "Type": "MANAGED", "State": "ENABLED", "ReplaceComputeEnvironment": false,
			"Tags": map[string]string{stack.TagManaged: stack.ManagedBy, TagSetup: b.name}, "ComputeResources": resources}
		if e.strategy != "" {
			resources["AllocationStrategy"], resources["MinvCpus"], resources["InstanceTypes"] = e.strategy, 0, b.options.machines
			resources["InstanceRole"] = stack.Att("MachinesProfile", "Arn")
			resources["LaunchTemplate"] = map[string]any{"LaunchTemplateId": stack.Ref("Machines"), "Version": stack.Att("Machines", "LatestVersionNumber")}
			resources["Tags"] = map[string]string{stack.TagManaged: stack.ManagedBy, TagProject: b.scope.Project, "Name": b.name}
		}
		r := stack.Resource{ID: e.id, Type: "AWS::Batch::ComputeEnvironment", Kind: "compute environment", Name: b.queue + e.suffix, Idle: idle, Properties: properties}
		if len(b.options.subnets) == 0 {
			r.After = []string{"WayOut"} // by which machines reach ECS
		}
		all = append(all, r)
	}
	return all
}

func (b built) queues() (all []stack.Resource) {
	for _, q := range setupQueues {
		var order []any
		for i, id := range q.below {
			order = append(order, map[string]any{"Order": i + 1, "ComputeEnvironment": stack.Ref(id)})
		}
		tags := queueTags(b.name, b.scope, q.purchase)
		all = append(all, stack.Resource{ID: q.id, Type: "AWS::Batch::JobQueue", Kind: KindQueue, Name: b.queue + q.suffix, Idle: idle,
			Properties: map[string]any{"JobQueueName": b.queue + q.suffix, "Priority": 1, "State": "ENABLED", "ComputeEnvironmentOrder": order, "Tags": tags}})
	}
	return all
}

// queueTags are those by which jobs find a set-up's queue, and what its agents get.
func queueTags(name string, s driver.Scope, purchase string) map[string]any {
	tags := map[string]any{stack.TagManaged: stack.ManagedBy, TagSetup: name, TagProject: s.Project, TagStore: amazon.TagText(s.Store, 256),
		TagRole: stack.Att("AgentsRole", "Arn"), TagLogs: logsOf(name)}
	if purchase != "" {
		tags[TagPurchase] = purchase
	}
	if IsFargate(purchase) {
		tags[TagExecution] = stack.Att("FargateRole", "Arn")
	}
	return tags
}
