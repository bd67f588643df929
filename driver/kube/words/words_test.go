package words

import "testing"

func TestKubernetesWordsComeWithANextStep(t *testing.T) {
	for text, want := range map[string]string{
		"0/3 nodes are available: 3 Insufficient nvidia.com/gpu.":                                        "Ask for fewer: --gpus; drover offers kube shows what nodes have.",
		"0/3 nodes are available: 3 Insufficient memory.":                                                "Ask for less: --memory; drover offers kube shows what nodes have.",
		"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.":                  "Loosen --where, --machine or --target-arg node.",
		"0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}.":                     "Tolerate it: --target-arg tolerate=KEY.",
		`persistentvolumeclaim "nope" not found`:                                                         "Make the claim, or name another: --target-arg volume=pvc/NAME:/path.",
		`pods "x" is forbidden: exceeded quota: compute, requested: limits.cpu=2, used: 39, limited: 40`: "Ask for less, or wait until other pods of the namespace have ended.",
		`pods "x" is forbidden: failed quota: compute: must specify limits.cpu for: agent`:               "Say how much it needs: --cpus, --memory.",
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0`:                   "Leave --target-arg user out, or choose a namespace that allows it.",
		"no PriorityClass with name nope was found":                                                      "See them: kubectl get priorityclasses; then --target-arg priority=NAME.",
		`error looking up service account r/nope: serviceaccount "nope" not found`:                       "See them: kubectl get serviceaccounts; then --target-arg service-account=NAME.",
		"container has runAsNonRoot and image has non-numeric user (app)":                                "Name a user: --target-arg user=UID, or user=image for an image with a number.",
		`InvalidImageName: couldn't parse image reference "A": invalid reference format`:                 "Check --image, and whether the cluster may pull it: --target-arg pull-secret=NAME.",
		"something else": "",
	} {
		if reason, hint := Explain(text + "\n"); hint != want || reason != text {
			t.Errorf("%s: %q, %q; want %q", text, reason, hint, want)
		}
	}
}
