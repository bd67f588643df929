package batchtest

import (
	"strings"

	"github.com/drover-run/drover/driver/stack/stacktest"
)

// newStacks is CloudFormation in the account of a server. It answers under Server.mu.
func newStacks(s *Server) *stacktest.Stacks {
	all := stacktest.New()
	all.Count = func(action string) bool {
		s.requests[action]++
		return action != s.knobs.denied
	}
	all.Taken = func(kind string, p map[string]any) string {
		if name, _ := p["JobQueueName"].(string); s.queues[name] != nil {
			return "Resource of type 'AWS::Batch::JobQueue' with identifier '" + name + "' already exists."
		}
		return ""
	}
	all.Show = func(kind string, p map[string]any) string { return showResource(s, kind, p) }
	all.Hide = func(kind, physical string) { hideResource(s, kind, physical) }
	return all
}

// showResource has AWS Batch know what a stack has made.
func showResource(s *Server, kind string, p map[string]any) (physical string) {
	switch kind {
	case "AWS::Batch::ComputeEnvironment":
		name := p["ComputeEnvironmentName"].(string)
		physical = arn("compute-environment/" + name)
		s.environments[name] = object{"computeEnvironmentName": name, "computeEnvironmentArn": physical, "type": p["Type"], "state": p["State"], "status": "VALID", "tags": p["Tags"], "computeResources": lower(p["ComputeResources"])}
	case "AWS::Batch::JobQueue":
		name := p["JobQueueName"].(string)
		physical = arn("job-queue/" + name)
		s.queues[name] = object{"jobQueueName": name, "jobQueueArn": physical, "state": p["State"], "status": "VALID", "priority": p["Priority"], "tags": p["Tags"], "computeEnvironmentOrder": lower(p["ComputeEnvironmentOrder"])}
	}
	return physical
}

// hideResource is its opposite.
func hideResource(s *Server, kind, physical string) {
	_, name, _ := strings.Cut(physical, "/")
	switch kind {
	case "AWS::Batch::ComputeEnvironment":
		delete(s.environments, name)
	case "AWS::Batch::JobQueue":
		delete(s.queues, name)
	}
}

// lower is a value with the names of its members as AWS Batch has them.
func lower(v any) any {
	switch v := v.(type) {
	case []any:
		var all []any
		for _, e := range v {
			all = append(all, lower(e))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for name, e := range v {
			if name != "Tags" {
				e = lower(e)
			}
			all[strings.ToLower(name[:1])+name[1:]] = e
		}
		return all
	}
	return v
}
