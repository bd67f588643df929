package account

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// own is a set-up of the user's own compute environment and job queue, with the properties that CloudFormation has for
// what the files say. An environment or a queue of which there is no file is nil.
type own struct {
	environment, queue map[string]any
	name               string // the queue's
}

// purchases are what environments of each type are for.
var purchases = map[string]string{"SPOT": Spot, "EC2": OnDemand, "FARGATE": Fargate, "FARGATE_SPOT": FargateSpot}

// readOwn reads the files of the options. The queue has the name by which it is asked for.
func readOwn(o Options, queue string) (w own, err error) {
	if w.environment, err = properties(givesEnvironment, o.environment); err != nil {
		return w, err
	}
	if w.queue, err = properties(givesQueue, o.queue); err != nil {
		return w, err
	}
	inFile, _ := w.queue["JobQueueName"].(string)
	w.name = cmp.Or(queue, inFile)
	switch {
	case w.name == "":
		err = fault.New(fault.Invalid, "Name it: `drover target up batch/NAME`.", "set up AWS Batch: the job queue has no name")
	case inFile != queue && inFile != "":
		err = fault.New(fault.Invalid, "Name the same one: `drover target up batch/"+inFile+"`.", "set up AWS Batch: the file of the job queue names %s", inFile)
	case w.environment == nil && w.queue["ComputeEnvironmentOrder"] == nil:
		err = fault.New(fault.Invalid, "Give the file of a compute environment too: `--target-arg "+givesEnvironment+"=@FILE`.", "set up AWS Batch: the file of job queue %s names no compute environment", w.name)
	}
	return w, err
}

// properties are a request of AWS Batch's as CloudFormation has it: its names begin with capitals, but for those that the
// user has chosen for tags.
func properties(option, text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Give it as AWS's own tool takes it: `--target-arg "+option+"=@FILE`.", "read --target-arg %s", option)
	}
	return capitalized(all).(map[string]any), nil
}

func capitalized(v any) any {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			v[i] = capitalized(e)
		}
	case map[string]any:
		all := map[string]any{}
		for name, e := range v {
			if name != "tags" {
				e = capitalized(e)
			}
			if name != "" {
				name = strings.ToUpper(name[:1]) + name[1:]
			}
			all[name] = e
		}
		return all
	}
	return v
}

// resources are the machines of the environment.
func (w own) resources() map[string]any {
	r, _ := w.environment["ComputeResources"].(map[string]any)
	return r
}

// stack adds to a stack what the files say, and what they need beside it: roles, a log group, and a network where they name none.
func (w own) stack(st stack.Stack, s driver.Scope, region string, o Options) (stack.Stack, error) {
	agents, err := agentsRole(s.Rights, o)
	if err != nil {
		return st, err
	}
	purchase, _ := w.resources()["Type"].(string)
	purchase = purchases[purchase]
	if r := w.resources(); r != nil && r["Subnets"] == nil && len(o.subnets) == 0 {
		st.Resources, r["Subnets"], r["SecurityGroupIds"] = stack.Network(st.Name, cmp.Or(o.zones, stack.ZonesOf(region)))
	} else if r != nil && r["Subnets"] == nil {
		r["Subnets"], r["SecurityGroupIds"] = texts(o.subnets), texts(o.groups)
	}
	inNetwork := len(st.Resources) > 0
	st.Resources = append(st.Resources, logGroup(st.Name), agents)
	if r := w.resources(); (purchase == Spot || purchase == OnDemand) && r["InstanceRole"] == nil {
		st.Resources = append(st.Resources, machinesRole()...)
		r["InstanceRole"] = stack.Att("MachinesProfile", "Arn")
	}
	if IsFargate(purchase) {
		st.Resources = append(st.Resources, fargateRole())
	}
	if w.environment != nil {
		name := w.complete(w.environment, "ComputeEnvironmentName", map[string]any{stack.TagManaged: stack.ManagedBy, TagSetup: st.Name})
		r := stack.Resource{ID: "Environment", Type: "AWS::Batch::ComputeEnvironment", Kind: "compute environment", Name: name, Idle: idle, Properties: w.environment}
		if inNetwork {
			r.After = []string{"WayOut"}
		}
		st.Resources = append(st.Resources, r)
	}
	if w.queue == nil {
		w.queue = map[string]any{"Priority": 1}
	}
	w.complete(w.queue, "JobQueueName", queueTags(st.Name, s, purchase))
	w.queue["ComputeEnvironmentOrder"] = w.order()
	st.Resources = append(st.Resources, stack.Resource{ID: "Queue", Type: "AWS::Batch::JobQueue", Kind: KindQueue, Name: w.name, Idle: idle, Properties: w.queue})
	return st, nil
}

// complete gives properties a name where they have none, drover's tags, and a state. It returns the name.
func (w own) complete(p map[string]any, nameKey string, tags map[string]any) string {
	name, _ := p[nameKey].(string)
	name = cmp.Or(name, w.name)
	if said, ok := p["Tags"].(map[string]any); ok {
		all := maps.Clone(said)
		maps.Copy(all, tags)
		tags = all
	}
	p[nameKey], p["Tags"] = name, tags
	if p["State"] == nil {
		p["State"] = "ENABLED"
	}
	return name
}

// order are the environments that the queue tries. That of the set-up is named by reference, so that it is made first.
func (w own) order() []any {
	said, _ := w.queue["ComputeEnvironmentOrder"].([]any)
	if len(said) == 0 {
		return []any{map[string]any{"Order": 1, "ComputeEnvironment": stack.Ref("Environment")}}
	}
	for _, e := range said {
		if e, ok := e.(map[string]any); ok && w.environment != nil && e["ComputeEnvironment"] == w.environment["ComputeEnvironmentName"] {
			e["ComputeEnvironment"] = stack.Ref("Environment")
		}
	}
	return said
}
