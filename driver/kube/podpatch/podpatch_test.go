package podpatch

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

var ours = Ours{Container: "agent", InitContainer: "prepare", Labels: []string{"drover.run/job"}, Volumes: []string{"work"}, Mounts: []string{"/drover"}, Variables: "DROVER_"}

func TestAPodIsChangedByAPatch(t *testing.T) {
	p, err := Parse(`
metadata: {annotations: {a: b}}
spec:
  hostNetwork: true
  affinity: null
  tolerations: [{key: x, operator: Exists}]
  containers:
  - {name: agent, env: [{name: A, value: "2"}, {name: B, value: "3"}], securityContext: {capabilities: {add: [IPC_LOCK]}}}
  initContainers: [{name: proxy, image: proxy:1, restartPolicy: Always}]
`, ours)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(p.Applied(object{"metadata": object{"labels": object{"l": "m"}}, "spec": object{
		"affinity":       object{"x": 1},
		"tolerations":    []object{{"key": "gpu", "operator": "Exists"}},
		"containers":     []object{{"name": "agent", "image": "i", "env": []object{{"name": "A", "value": "1"}}, "securityContext": object{"capabilities": object{"drop": []string{"ALL"}}}}},
		"initContainers": []object{{"name": "prepare"}},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"a":"b"},"labels":{"l":"m"}},"spec":{` +
		`"containers":[{"env":[{"name":"A","value":"2"},{"name":"B","value":"3"}],"image":"i","name":"agent","securityContext":{"capabilities":{"add":["IPC_LOCK"],"drop":["ALL"]}}}],` +
		`"hostNetwork":true,"initContainers":[{"name":"prepare"},{"image":"proxy:1","name":"proxy","restartPolicy":"Always"}],` +
		`"tolerations":[{"key":"gpu","operator":"Exists"},{"key":"x","operator":"Exists"}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
}

func TestWhatDroverDecidesIsNotPatched(t *testing.T) {
	const form = "Write it as a part of a pod: {spec: {hostNetwork: true}}."
	for text, want := range map[string][2]string{
		"spec: {restartPolicy: Always}":                                                      {"read --target-arg pod: drover decides spec.restartPolicy", "Leave it out."},
		"spec: {terminationGracePeriodSeconds: 1}":                                           {"read --target-arg pod: drover decides spec.terminationGracePeriodSeconds", "Leave it out, and use --grace."},
		"metadata: {labels: {drover.run/job: x}}":                                            {"read --target-arg pod: drover decides metadata.labels[drover.run/job]", "Leave it out."},
		"spec: {containers: [{name: agent, image: x}]}":                                      {"read --target-arg pod: drover decides spec.containers[agent].image", "Leave it out, and use --image."},
		"spec: {runtimeClassName: x}":                                                        {"read --target-arg pod: drover decides spec.runtimeClassName", "Leave it out, and use --target-arg runtime-class=NAME."},
		"spec: {volumes: [{name: work, hostPath: {path: /}}]}":                               {"read --target-arg pod: drover decides spec.volumes[work]", "Leave it out."},
		"spec: {volumes: null}":                                                              {"read --target-arg pod: drover decides spec.volumes", "Leave it out."},
		"spec: {containers: [{name: agent, env: [{name: DROVER_KUBE_ROLE, value: x}]}]}":     {"read --target-arg pod: drover decides spec.containers[agent].env[DROVER_KUBE_ROLE]", "Leave it out."},
		"spec: {containers: [{name: agent, volumeMounts: [{name: x, mountPath: /drover}]}]}": {"read --target-arg pod: drover decides spec.containers[agent].volumeMounts[/drover]", "Leave it out."},
		"spec: {containers: 1}":                                                              {"read --target-arg pod: drover decides spec.containers", "Leave it out."},
		"spec: {containers: [{name: own}]}":                                                  {"read --target-arg pod: a pod that has to end cannot have the container own in containers", "Name the container agent, or give a sidecar as one of initContainers with restartPolicy: Always."},
		"status: {}":                                                                         {"read --target-arg pod: a pod has metadata and spec, and no status that can be changed", form},
		"[1]":                                                                                {"", form},
		"spec: {a: [}":                                                                       {"", form},
		"spec: {initContainers: [{name: prepare, args: [a]}]}":                               {"read --target-arg pod: drover decides spec.initContainers[prepare].args", "Leave it out, and use the program after the options."},
		"spec: {initContainers: [{name: mine, command: [ls]}]}":                              {"read --target-arg pod: a pod that has to end cannot have the container mine in initContainers", "Name the container prepare, or give a sidecar as one of initContainers with restartPolicy: Always."},
	} {
		_, err := Parse(text, ours)
		if fault.KindOf(err) != fault.Invalid || want[0] != "" && err.Error() != want[0] || fault.Hint(err) != want[1] {
			t.Errorf("%s: %v, %q", text, err, fault.Hint(err))
		}
	}
}
