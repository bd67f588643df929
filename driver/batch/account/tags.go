// Package account is what jobs of AWS Batch stand on in an account: the resources of a set-up as a stack of
// CloudFormation, the options by which a user changes them, and the tags by which jobs find its queues.
//
// It asks nothing of AWS: package batch does, by package stack. Its template is compared with one that was looked at.
package account

// Prefix begins the names of what drover makes.
const Prefix = "drover-"

// The tags of a set-up's queues, by which offers find them.
const (
	TagSetup     = "drover-set-up" // the stack's name
	TagProject   = "drover-project"
	TagStore     = "drover-store"
	TagPurchase  = "drover-purchase" // one of the purchases below
	TagLogs      = "drover-log-group"
	TagExecution = "drover-execution-role" // by which Fargate pulls images
	TagRole      = "drover-job-role"       // that agents have where none is named
)

// What a set-up's queues are for.
const (
	Spot        = "spot"
	OnDemand    = "on-demand"
	SpotFirst   = "spot-first"
	Fargate     = "fargate"
	FargateSpot = "fargate-spot"
)

// IsFargate says whether a queue's name is one of those by which a job asks for the set-up's queues of
// Fargate, or the tag of one of these.
func IsFargate(queue string) bool {
	return queue == Fargate || queue == FargateSpot
}
