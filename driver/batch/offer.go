package batch

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/batch/entrypoint"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// system is that of the machines.
const system = "linux/amd64"

// queue is what is known of a queue and the environments below it.
type queue struct {
	site   site
	detail types.JobQueueDetail
	below  []types.ComputeEnvironmentDetail // in their order
}

// Offer asks for the queue and its compute environments, and changes nothing. Without an account in
// this machine's configuration it sends nothing.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (o driver.Offer, err error) {
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	opts, err := parseOptions(n.Args)
	if err != nil {
		return o, err
	}
	at, err := parseSite(n.Detail)
	if err != nil {
		return o, err
	}
	if have := amazon.Configured(ctx, amazon.Options{Region: at.region}); !have.OK() {
		o.Reason, o.Hint = have.Missing, have.Fix
		return o, nil
	}
	c, err := d.engine.clients.In(ctx, at.region)
	if err != nil {
		return o, err
	}
	at.region = c.region
	if at.queue == "" || account.IsFargate(at.queue) {
		all, err := c.queues(ctx, nil)
		if err != nil {
			return c.offerQueues(nil, n), err
		}
		named := at.queue
		if at.queue, err = d.chooseQueue(ctx, all, named, n); err != nil || at.queue == "" {
			o = c.offerQueues(all, n)
			if named != "" && !o.Fits {
				o.Reason, o.Hint = "the project has no set-up with queues of Fargate in "+c.region, "Have one made: drover target up batch."
			}
			return o, err
		}
	}
	q, err := c.findQueue(ctx, at)
	if err == nil {
		q, err = c.sibling(ctx, q, n)
	}
	if err != nil {
		if k := fault.KindOf(err); k == fault.Missing || k == fault.Denied || k == fault.Invalid {
			o.Reason, o.Hint = err.Error(), fault.Hint(err)
			return o, nil
		}
		return o, err
	}
	o.Detail, o.Machine, o.System = q.site.String(), "AWS Batch, queue "+q.words(), system
	o.Cores, o.Registry = q.mostCores(), c.imagesOf(q).Prefix()
	o.Spot = n.Spot != job.SpotNever && q.isSpot()
	opts = q.complete(opts)
	s, err := shapeOf(n, opts, q)
	o.Identity = "the role " + s.options.jobRole
	if err == nil {
		err = q.check(n, s)
	}
	limited := ""
	if err == nil {
		limited, err = c.checkQuota(ctx, q, n, s)
	}
	if err != nil {
		o.Reason, o.Hint, o.Spot = err.Error(), fault.Hint(err), false
		return o, nil
	}
	o.Fits, o.Notes = true, s.notes(n)
	if limited != "" {
		o.Notes = append(o.Notes, limited)
	}
	return o, nil
}

// chooseQueue is the name of the queue that a job means which names none, or "fargate": that of its project's
// set-up, or the only one; "": it has to name one.
func (d *Driver) chooseQueue(ctx context.Context, all []types.JobQueueDetail, named string, n driver.Needs) (name string, err error) {
	if len(all) == 1 && named == "" {
		return aws.ToString(all[0].JobQueueName), nil
	}
	var found []types.JobQueueDetail
	for _, q := range all {
		if aws.ToString(q.JobQueueName) == named {
			return named, nil // another queue has that name
		}
		setup := q.Tags[account.TagSetup] // with a name of its own it is for jobs that name it
		if strings.HasPrefix(aws.ToString(q.JobQueueName), setup) && q.Tags[account.TagProject] == n.Labels[tagOfProject] && q.Tags[account.TagPurchase] == purchaseOf(named, n.Spot) {
			found = append(found, q)
		}
	}
	if len(found) > 1 && d.stores != nil { // a set-up for each store
		s, err := d.stores(ctx)
		if err != nil {
			return "", err
		}
		found = slices.DeleteFunc(found, func(q types.JobQueueDetail) bool { return q.Tags[account.TagStore] != amazon.TagText(s.String(), 256) })
	}
	if len(found) != 1 {
		return "", nil
	}
	return aws.ToString(found[0].JobQueueName), nil
}

// tagOfProject is the label of a job that names its project.
const tagOfProject = "project"

// purchaseOf is which of a set-up's queues is for such machines, among those that are like one of them: spot
// capacity where nothing was said.
func purchaseOf(like string, s job.Spot) string {
	if account.IsFargate(like) {
		switch s {
		case job.SpotAny:
			return like
		case job.SpotNever:
			return account.Fargate
		}
		return account.FargateSpot
	}
	switch s {
	case job.SpotNever:
		return account.OnDemand
	case job.SpotFirst:
		return account.SpotFirst
	}
	return account.Spot
}

// sibling is the queue of the same set-up for the machines that are asked for. A queue that no set-up has made
// has none.
func (c *client) sibling(ctx context.Context, q queue, n driver.Needs) (queue, error) {
	of, wanted := q.detail.Tags[account.TagSetup], purchaseOf(q.detail.Tags[account.TagPurchase], n.Spot)
	if of == "" || n.Spot == "" || q.detail.Tags[account.TagPurchase] == wanted {
		return q, nil
	}
	all, err := c.queues(ctx, nil)
	if err != nil {
		return q, err
	}
	i := slices.IndexFunc(all, func(o types.JobQueueDetail) bool {
		return o.Tags[account.TagSetup] == of && o.Tags[account.TagPurchase] == wanted
	})
	if i < 0 {
		return q, nil // check says what is missing
	}
	return c.findQueue(ctx, site{aws.ToString(all[i].JobQueueName), q.site.region, q.site.account})
}

// offerQueues is the offer where no queue was named, and there is more than one or none.
func (c *client) offerQueues(all []types.JobQueueDetail, n driver.Needs) (o driver.Offer) {
	o.Machine = "AWS Batch in " + c.region
	for _, q := range all {
		at := site{aws.ToString(q.JobQueueName), c.region, accountOf(aws.ToString(q.JobQueueArn))}
		o.Choices = append(o.Choices, driver.Choice{Detail: at.String(), Machine: queue{site: at, detail: q}.words()})
	}
	o.Fits = n.Agents == 0
	switch {
	case o.Fits:
	case len(all) == 0:
		o.Reason, o.Hint = "there is no job queue in "+c.region, "Have one made: drover target up batch."
	default:
		o.Reason, o.Hint = "no queue is named", "Name one: --on batch/QUEUE; drover offers batch shows those that there are."
	}
	return o
}

// queues describes queues by their names; nil: all.
func (c *client) queues(ctx context.Context, names []string) (all []types.JobQueueDetail, err error) {
	in := &batch.DescribeJobQueuesInput{JobQueues: names}
	for {
		var out *batch.DescribeJobQueuesOutput
		err := c.send.Read(ctx, "describe job queues", func(ctx context.Context) (err error) {
			out, err = c.api.DescribeJobQueues(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, out.JobQueues...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return all, nil
		}
	}
}

// findQueue describes a queue and what is below it. The error is Missing where it is not there.
func (c *client) findQueue(ctx context.Context, at site) (q queue, err error) {
	found, err := c.queues(ctx, []string{at.queue})
	if err != nil {
		return q, err
	}
	if len(found) == 0 {
		return q, c.noQueue(ctx, at)
	}
	q.detail = found[0]
	q.site = site{at.queue, c.region, accountOf(aws.ToString(q.detail.JobQueueArn))}
	if at.account != "" && at.account != q.site.account {
		return q, fault.New(fault.Denied, "Use credentials of account "+at.account+": `AWS_PROFILE`.", "the job's queue is in account %s, and these credentials are of account %s", at.account, q.site.account)
	}
	order := slices.Clone(q.detail.ComputeEnvironmentOrder)
	slices.SortFunc(order, func(a, b types.ComputeEnvironmentOrder) int { return int(aws.ToInt32(a.Order) - aws.ToInt32(b.Order)) })
	var names []string
	for _, e := range order {
		names = append(names, aws.ToString(e.ComputeEnvironment))
	}
	if len(names) == 0 {
		return q, nil
	}
	var out *batch.DescribeComputeEnvironmentsOutput
	err = c.send.Read(ctx, "describe compute environments", func(ctx context.Context) (err error) {
		out, err = c.api.DescribeComputeEnvironments(ctx, &batch.DescribeComputeEnvironmentsInput{ComputeEnvironments: names})
		return err
	})
	if err != nil {
		return q, err
	}
	q.below = out.ComputeEnvironments // in any order
	slices.SortStableFunc(q.below, func(a, b types.ComputeEnvironmentDetail) int {
		return slices.Index(names, aws.ToString(a.ComputeEnvironmentArn)) - slices.Index(names, aws.ToString(b.ComputeEnvironmentArn))
	})
	return q, nil
}

// noQueue says that a queue is not there, and which one has a similar name.
func (c *client) noQueue(ctx context.Context, at site) error {
	hint := "See those that there are: `drover offers batch`."
	if all, err := c.queues(ctx, nil); err == nil {
		var names []string
		for _, q := range all {
			names = append(names, aws.ToString(q.JobQueueName))
		}
		if near := fault.Nearest(at.queue, names); near != "" {
			hint = "Use `--on batch/" + near + "`."
		}
	}
	return fault.New(fault.Missing, hint, "there is no job queue %s in %s", at.queue, c.region)
}

// accountOf is the account in an ARN; "": it has none.
func accountOf(arn string) string {
	if parts := strings.Split(arn, ":"); len(parts) > 4 {
		return parts[4]
	}
	return ""
}

// words name a queue for people.
func (q queue) words() string {
	text := q.site.queue + " in " + q.site.region
	var kinds []string
	for _, e := range q.below {
		if r := e.ComputeResources; r != nil {
			kinds = append(kinds, resourceWords(r))
		}
	}
	if len(kinds) > 0 {
		text += ": " + strings.Join(kinds, "; ")
	}
	return text
}

// resourceWords say what a compute environment has.
func resourceWords(r *types.ComputeResource) string {
	machines, most := strings.Join(r.InstanceTypes, ", "), aws.ToInt32(r.MaxvCpus)
	switch r.Type {
	case types.CRTypeSpot:
		return fmt.Sprintf("spot capacity of %s, up to %d cores", machines, most)
	case types.CRTypeFargate:
		return fmt.Sprintf("Fargate, up to %d cores", most)
	case types.CRTypeFargateSpot:
		return fmt.Sprintf("spot capacity of Fargate, up to %d cores", most)
	}
	return fmt.Sprintf("on-demand machines of %s, up to %d cores", machines, most)
}

// complete gives options what the queue's tags say where they say nothing.
func (q queue) complete(o options) options {
	o.jobRole, o.executionRole, o.logGroup = cmp.Or(o.jobRole, q.detail.Tags[account.TagRole]), cmp.Or(o.executionRole, q.detail.Tags[account.TagExecution]), cmp.Or(o.logGroup, q.detail.Tags[account.TagLogs])
	return o
}

func (q queue) isSpot() bool {
	if len(q.below) == 0 || q.below[0].ComputeResources == nil {
		return false
	}
	t := q.below[0].ComputeResources.Type
	return t == types.CRTypeSpot || t == types.CRTypeFargateSpot
}

func (q queue) mostCores() (n int) {
	for _, e := range q.below {
		if e.ComputeResources != nil {
			n = max(n, int(aws.ToInt32(e.ComputeResources.MaxvCpus)))
		}
	}
	return n
}

// What the largest machines of EC2 have: u7inh-32tb.480xlarge, p2.16xlarge.
const (
	mostCores  = 1920
	mostMemory = 32 << 40
	mostGPUs   = 16
)

// check holds needs against the queue. Its errors are refusals in words for the plan.
func (q queue) check(n driver.Needs, s shape) error {
	if q.detail.State != types.JQStateEnabled || q.detail.Status != types.JQStatusValid {
		return fault.New(fault.Full, "See it in the console of AWS Batch.", "queue %s is %s and %s: %s", q.site.queue, q.detail.State, q.detail.Status, aws.ToString(q.detail.StatusReason))
	}
	for _, e := range q.below {
		if e.Status == types.CEStatusInvalid {
			return fault.New(fault.Full, "See it in the console of AWS Batch.", "compute environment %s is INVALID: %s", aws.ToString(e.ComputeEnvironmentName), aws.ToString(e.StatusReason))
		}
		if e.ComputeResources == nil { // the owner's own machines, or of EKS
			return fault.New(fault.Invalid, "Use a queue of EC2 machines or of Fargate.", "queue %s is of machines that AWS Batch does not manage by ECS: %s", q.site.queue, aws.ToString(e.ComputeEnvironmentName))
		}
	}
	if s.fargate {
		if err := s.checkFargate(n); err != nil {
			return err
		}
	}
	if _, err := entrypoint.HandOver(n.Place.Entrypoint, "", s.options.passes); err != nil {
		return err
	}
	switch {
	case s.options.jobRole == "":
		return fault.New(fault.Denied, "Name the role that opens the store: `--target-arg job-role=arn:aws:iam::ACCOUNT:role/NAME`, or once for all in the queue's tag "+account.TagRole+"; what it must allow: `drover doctor --policy agents`.", "no role for the agents is named")
	case !q.meets(n, s):
		return fault.New(fault.Invalid, "Leave `--where` out, and use a queue of such machines.", "of the machines of queue %s it is not known that they are what --where says: %s", q.site.queue, n.Where)
	case len(n.Machine) > 0 && !q.hasOnly(n.Machine):
		return fault.New(fault.Invalid, "Use a queue of such machines: `drover target up batch/NAME --target-arg machines=g5.xlarge` makes one.", "queue %s has other machines too: --machine %s", q.site.queue, strings.Join(n.Machine, ","))
	case n.Disk > 0 && !s.fargate:
		return fault.New(fault.Invalid, "Leave `--disk` out: the disk is that of the machines' launch template.", "AWS Batch holds no job to an amount of disk")
	case len(n.Place.Mounts) > 0:
		return fault.New(fault.Invalid, "Give it as an input: `-i FOLDER`.", "containers on AWS Batch see no folder of this machine: --mount %s", n.Place.Mounts[0].Source)
	case (n.Spot == job.SpotOnly || n.Spot == job.SpotFirst) && !q.isSpot():
		return fault.New(fault.Invalid, "Leave `--spot` out, or use a queue of spot capacity.", "the first compute environment of queue %s is of on-demand machines", q.site.queue)
	case n.Spot == job.SpotNever && q.isSpot():
		return fault.New(fault.Invalid, "Leave `--on-demand` out, or use another queue.", "the first compute environment of queue %s is spot capacity", q.site.queue)
	case q.mostCores() > 0 && s.cpus > float64(q.mostCores()):
		return fault.New(fault.Full, "Ask for less: `--cpus`.", "the queue may use %d cores in all, and an agent needs %v", q.mostCores(), s.cpus)
	case s.cpus > mostCores || s.memory > mostMemory || s.gpus > mostGPUs:
		return fault.New(fault.Full, "Ask for less: `--cpus`, `--memory`, `--gpus`.", "no machine of EC2 is so large: the largest have %d cores, %d TB of memory, %d GPUs", mostCores, mostMemory>>40, mostGPUs)
	case n.Agents > mostAgents:
		return tooMany(n.Agents)
	}
	return nil
}

// types are the types and families of machines that the queue may use.
func (q queue) types() (all []string) {
	for _, e := range q.below {
		if e.ComputeResources != nil {
			all = append(all, e.ComputeResources.InstanceTypes...)
		}
	}
	return all
}

// hasOnly says whether it is known that all machines of the queue are of types that globs name.
func (q queue) hasOnly(globs []string) bool {
	all := q.types()
	return len(all) > 0 && !slices.ContainsFunc(all, func(t string) bool {
		return !slices.ContainsFunc(globs, func(g string) bool {
			matches, err := path.Match(g, t)
			return err == nil && matches && strings.Contains(t, ".") || g == t+".*" // a family
		})
	})
}

// meets says whether it is known that all machines of the queue are what --where says. A machine has
// at least what an agent needs, and at most what the largest machine has.
func (q queue) meets(n driver.Needs, s shape) bool {
	purchase := where.OnDemand
	if q.isSpot() {
		purchase = where.Spot
	}
	kinds := q.types()
	if len(kinds) == 0 {
		kinds = []string{""} // Fargate
	}
	for _, kind := range kinds {
		for _, size := range [][2]int64{{int64(s.cpus), s.memory}, {1 << 12, 64 << 40}} {
			all := where.Attributes{where.Arch: {"amd64"}, where.Region: {q.site.region}, where.Purchase: {purchase}, where.Feature: {},
				where.CPUs: {strconv.FormatInt(size[0], 10)}, where.Memory: {strconv.FormatInt(size[1], 10)}}
			if family, _, ok := strings.Cut(kind, "."); ok {
				all[where.Type], all[where.Family] = []string{kind}, []string{family}
			} else if kind != "" && kind != "optimal" && !strings.HasPrefix(kind, "default_") { // words for several families
				all[where.Family] = []string{kind}
			}
			if n.Where.Unmet(all) != "" {
				return false
			}
		}
	}
	return true
}

func cores(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%v cores", n)
}

// notes are what a user may not expect of the offer.
func (s shape) notes(n driver.Needs) (all []string) {
	if s.options.definition != "" {
		all = append(all, fmt.Sprintf("each agent has %s and %d MB of memory, in the image %s, as %s says", cores(s.cpus), s.memory>>20, s.image, amendsDefinition))
	} else if n.CPUs == 0 && n.Memory == 0 {
		all = append(all, fmt.Sprintf("each agent has %s and %d MB of memory: --cpus and --memory ask for more", cores(s.cpus), (s.memory-agentMemory)>>20))
	}
	var unread []string
	for _, arg := range n.Args {
		if account.IsOption(arg) {
			name, _, _ := strings.Cut(arg, "=")
			unread = append(unread, name)
		}
	}
	if len(unread) > 0 {
		all = append(all, "drover target up alone reads "+strings.Join(unread, ", "))
	}
	if n.Place.Nodes > 1 {
		all = append(all, "nodes begin one by one, as there are machines")
	}
	return all
}
