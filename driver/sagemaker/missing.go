package sagemaker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// Workers that a quota left without a job wait while others of their placement work. A process that looks at the placement for longer than askTime,
// as an attached command does, asks for their jobs again.

// askTime is how long a process waits before it asks again for jobs that a quota has refused.
const askTime = time.Minute

// wanting is what this process knows of a placement's workers without a job.
type wanting struct {
	asked time.Time // when it asked for them last, or has seen them first
	why   string    // SageMaker has made none; "": another process was told
}

// waiting are the members that workers without jobs are. like describes a job of their placement, or is the zero value: none of it goes on any more, and
// others have to be placed for them. Once their placement is stopped no job is made for them.
func (e *engine) waiting(c *client, k kind, h driver.Handle, names []string, like description, stopped bool) (all []remote.Process) {
	e.mu.Lock()
	why := cmp.Or(e.wanting[h].why, "a quota is used up")
	e.mu.Unlock()
	quota := quotaName(like.Resources.InstanceType, k, like.Spot)
	for _, name := range names {
		_, worker, _ := parseJobName(name)
		p := remote.Process{Claimant: remote.Claimant{ID: name, Index: max(worker, 0), Attempt: 1}, State: driver.Waiting, Code: -1,
			Reason: "SageMaker has made no job for it: " + why, Hint: "Ask for fewer workers, or ask AWS for more: " + increase(c.region, quota) + "."}
		switch {
		case stopped:
			p.State, p.Terminated, p.Hint = driver.Ended, true, ""
		case !like.alive():
			p.State, p.Hint = driver.Taken, "Ask for fewer workers, or ask AWS for more in the console of Service Quotas."
		}
		all = append(all, p)
	}
	return all
}

// noteRefusal keeps why SageMaker has made no jobs for some workers of a placement.
func (e *engine) noteRefusal(h driver.Handle, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanting[h] = wanting{time.Now(), strings.TrimPrefix(err.Error(), "start agents: ")}
}

// askAgain asks for jobs that a quota has refused, in their order, until one is refused again. like is the name of a job of their placement that
// goes on: theirs are the same but for their names.
func (e *engine) askAgain(ctx context.Context, c *client, k kind, h driver.Handle, names []string, like string) error {
	e.mu.Lock()
	w, known := e.wanting[h]
	due := known && time.Since(w.asked) >= e.again
	if due || !known {
		e.wanting[h] = wanting{time.Now(), w.why}
	}
	e.mu.Unlock()
	if !due {
		return nil
	}
	request, err := c.copyRequest(ctx, k, like)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := c.create(ctx, k, name, request.named(k, like, name))
		switch {
		case err == nil:
		case remote.Refused(err):
			e.noteRefusal(h, err)
			return nil
		default:
			return err
		}
	}
	return nil
}

// members of requests that descriptions of jobs have too.
var members = map[kind][]string{
	training: {"AlgorithmSpecification", "RoleArn", "HyperParameters", "InputDataConfig", "OutputDataConfig", "ResourceConfig", "VpcConfig", "StoppingCondition", "EnableNetworkIsolation",
		"EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining", "CheckpointConfig", "DebugHookConfig", "TensorBoardOutputConfig", "ProfilerConfig", "Environment", "RetryStrategy"},
	processing: {"AppSpecification", "RoleArn", "ProcessingInputs", "ProcessingOutputConfig", "ProcessingResources", "NetworkConfig", "StoppingCondition", "Environment"},
}

// copied is a request for another job like one that there is.
type copied map[string]any

// named is the request for a job of a name; that of the one that it is like stands in where outputs go.
func (r copied) named(k kind, like, name string) any {
	text, err := json.Marshal(r)
	if err != nil {
		panic("sagemaker: " + err.Error()) // decoded JSON alone comes here
	}
	var request map[string]any
	_ = json.Unmarshal(bytes.ReplaceAll(text, []byte("/"+like+"/output"), []byte("/"+name+"/output")), &request) // as above
	request[k.noun+"Name"] = name
	return request
}

// tagsOf are the tags of a job, by its ARN.
func (c *client) tagsOf(ctx context.Context, arn string) ([]tag, error) {
	var out struct{ Tags []tag }
	err := c.send.Read(ctx, "list tags of jobs", func(ctx context.Context) error {
		return c.api.Call(ctx, "ListTags", map[string]string{"ResourceArn": arn}, &out)
	})
	return out.Tags, err
}

// copyRequest is the request by which a job was made, without its name.
func (c *client) copyRequest(ctx context.Context, k kind, name string) (copied, error) {
	var described map[string]any
	err := c.send.Read(ctx, fmt.Sprintf("describe %s %s", k.words, name), func(ctx context.Context) error {
		return c.api.Call(ctx, "Describe"+k.noun, map[string]string{k.noun + "Name": name}, &described)
	})
	if err != nil {
		return nil, err
	}
	arn, _ := described[k.noun+"Arn"].(string)
	tags, err := c.tagsOf(ctx, arn)
	if err != nil && fault.KindOf(err) != fault.Denied { // then it has none, and works all the same
		return nil, err
	}
	request := copied{"Tags": tags}
	for member, value := range described {
		if slices.Contains(members[k], member) && value != nil {
			request[member] = value
		}
	}
	return request, nil
}
