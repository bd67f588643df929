// Package words has Kubernetes' own words for what is wrong, by what a user can do about it. Proved by
// its table.
package words

import (
	"regexp"
	"strings"
)

// OneLine is a text without line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// explanations are Kubernetes' words, by what a user can do about them. The first with a pattern
// that occurs in the text applies.
var explanations = []struct{ pattern, hint string }{
	{`Insufficient nvidia\.com/gpu`, "Ask for fewer: --gpus; drover offers kube shows what nodes have."},
	{`Insufficient cpu`, "Ask for fewer: --cpus; drover offers kube shows what nodes have."},
	{`Insufficient memory`, "Ask for less: --memory; drover offers kube shows what nodes have."},
	{`didn't match Pod's node affinity`, "Loosen --where, --machine or --target-arg node."},
	{`untolerated taint`, "Tolerate it: --target-arg tolerate=KEY."},
	{`persistentvolumeclaim "([^"]+)" not found`, "Make the claim, or name another: --target-arg volume=pvc/NAME:/path."},
	{`the image cannot be pulled`, CheckImage},
	{`InvalidImageName`, CheckImage},
	{`image will run as root`, nameUser},
	{`non-numeric user`, nameUser},
	{`exceeded quota`, "Ask for less, or wait until other pods of the namespace have ended."},
	{`must specify`, "Say how much it needs: --cpus, --memory."},
	{`violates PodSecurity`, "Leave --target-arg user out, or choose a namespace that allows it."},
	{`no PriorityClass`, "See them: kubectl get priorityclasses; then --target-arg priority=NAME."},
	{`serviceaccount "([^"]+)" not found`, "See them: kubectl get serviceaccounts; then --target-arg service-account=NAME."},
}

// nameUser is the next step for an image that runs as root, or as a user without a number.
const nameUser = "Name a user: --target-arg user=UID, or user=image for an image with a number."

// CheckImage is the next step for an image that cannot be pulled.
const CheckImage = "Check --image, and whether the cluster may pull it: --target-arg pull-secret=NAME."

// Explain gives what Kubernetes says in one line, and what to do about it.
func Explain(text string) (reason, hint string) {
	reason = OneLine(text)
	for _, e := range explanations {
		if regexp.MustCompile(e.pattern).MatchString(text) {
			return reason, e.hint
		}
	}
	return reason, ""
}
